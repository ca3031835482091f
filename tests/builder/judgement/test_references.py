"""References of every kind of observable, on the bins that live traffic is counted in."""

import pytest

from builder.judgement.references import References
from builder.steps.step import Refused
from registry.contract.pipeline import Classify, PipelineSpec, Regress
from registry.contract.versions import Dtype, Observable, Signature, TensorSpec, VersionContract

SIGNATURE = Signature(
    inputs=(TensorSpec(name="x", dtype=Dtype.FP32, shape=("batch", 2)),),
    outputs=(
        TensorSpec(name="scores", dtype=Dtype.FP32, shape=("batch", 3)),
        TensorSpec(name="price", dtype=Dtype.FP32, shape=("batch", 1)),
    ),
)


def contract(*observables: Observable) -> VersionContract:
    pipeline = PipelineSpec(
        post=(Classify(output="scores", labels=("a", "b", "c"), top=2), Regress(output="price"))
    )
    return VersionContract(signature=SIGNATURE, pipeline=pipeline, observables=observables)


def test_classes_are_ordered_by_the_contract_and_then_by_frequency() -> None:
    found = References(contract(Observable(name="label", kind="class", source="label", labels=("c",))))
    for label in "abbc":
        found.add({"label": label, "score": 0.5, "index": 0, "top": [], "value": 1.0})
    (reference,) = found.all()
    assert (reference.labels, reference.counts) == (("c", "b", "a"), (1, 2, 1, 0))


def test_values_without_edges_get_equal_shares() -> None:
    found = References(contract(Observable(name="price", kind="value", source="value")))
    for at in range(320):
        found.add({"label": "a", "score": 0.5, "index": 0, "top": [], "value": float(at)})
    (reference,) = found.all()
    assert len(reference.counts) == len(reference.edges) + 1 == 32
    assert set(reference.counts) == {10}


def test_values_with_edges_keep_them() -> None:
    observable = Observable(name="price", kind="value", source="value", edges=(1.0, 2.0))
    found = References(contract(observable))
    for value in (0.5, 1.0, 1.5, 7.0):
        found.add({"label": "a", "score": 0.5, "index": 0, "top": [], "value": value})
    (reference,) = found.all()
    assert (reference.edges, reference.counts) == ((1.0, 2.0), (1, 2, 1))


def test_lengths_and_scores_are_counted() -> None:
    found = References(
        contract(
            Observable(name="score", kind="score", source="score"),
            Observable(name="chars", kind="length", source="label", edges=(2.0,)),
        )
    )
    for label, score in (("a", 0.0), ("bbb", 1.0), ("cc", 0.999)):
        found.add({"label": label, "score": score, "index": 0, "top": [], "value": 1.0})
    score_reference, chars = found.all()
    assert len(score_reference.counts) == 64
    assert (score_reference.counts[0], score_reference.counts[-1]) == (1, 2)
    assert chars.counts == (1, 2)


def test_no_answers_give_empty_references() -> None:
    (reference,) = References(contract(Observable(name="price", kind="value", source="value"))).all()
    assert (reference.edges, reference.counts) == ((), (0,))


def test_an_observable_that_reads_nothing_is_refused() -> None:
    with pytest.raises(Refused, match="'mime'"):
        References(contract(Observable(name="mime", kind="class", source="mime")))
