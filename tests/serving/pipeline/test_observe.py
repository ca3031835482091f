import pytest

from registry.contract.counters import SCORE_BINS, CounterEdges, ObservableEdges
from registry.contract.pipeline import Classify, PipelineSpec
from registry.contract.versions import Dtype, Observable, Signature, TensorSpec, VersionContract
from serving.pipeline.errors import PipelineMismatch
from serving.pipeline.observe import Binner, Observer, observe, score_edges


def contract(*observables: Observable, post: bool = True) -> VersionContract:
    return VersionContract(
        signature=Signature(
            inputs=(), outputs=(TensorSpec(name="scores", dtype=Dtype.FP32, shape=("batch", "classes")),)
        ),
        pipeline=PipelineSpec(post=(Classify(output="scores"),) if post else ()),
        observables=observables,
    )


def test_reads_the_fields_in_the_contract_s_order() -> None:
    made = contract(
        Observable(name="confidence", kind="score", source="score"),
        Observable(name="kind", kind="class", source="label"),
        Observable(name="which", kind="value", source="index"),
        Observable(name="found", kind="count", source="top"),
        Observable(name="name_length", kind="length", source="label"),
    )
    answer = {"label": "cat", "score": 0.25, "index": 3, "top": [{}, {}]}
    assert observe(made, answer) == [
        ("confidence", 0.25),
        ("kind", "cat"),
        ("which", 3.0),
        ("found", 2.0),
        ("name_length", 3.0),
    ]


def test_outputs_are_fields_too() -> None:
    made = contract(Observable(name="width", kind="length", source="scores"), post=False)
    assert observe(made, {"scores": [0.1, 0.2]}) == [("width", 2.0)]


def test_a_source_that_no_answer_has_is_refused_at_once() -> None:
    with pytest.raises(PipelineMismatch, match="reads 'scores'; the answer has label, score, index, top"):
        Observer(contract(Observable(name="x", kind="value", source="scores")))


def test_a_field_that_can_not_be_counted_so_is_refused() -> None:
    observer = Observer(contract(Observable(name="x", kind="score", source="label")))
    with pytest.raises(PipelineMismatch, match=r"'x' is a score, but 'label' holds a str"):
        observer({"label": "cat"})


def test_classes_have_a_bin_each_and_one_for_the_rest() -> None:
    edges = ObservableEdges(name="kind", kind="class", labels=("cat", "dog"))
    binner = Binner([edges])
    assert [binner("kind", label) for label in ("cat", "dog", "eel")] == [0, 1, 2]
    assert edges.bins == 3


@pytest.mark.parametrize(
    ("value", "index"), [(-5.0, 0), (0.999, 0), (1.0, 1), (1.5, 1), (2.0, 2), (4.0, 3), (1e9, 3)]
)
def test_numbers_fall_between_their_edges(value: float, index: int) -> None:
    edges = ObservableEdges(name="n", kind="value", edges=(1.0, 2.0, 4.0))
    assert Binner(CounterEdges(observables=(edges,)))("n", value) == index
    assert index < edges.bins


def test_scores_have_equal_bins() -> None:
    edges = ObservableEdges(name="s", kind="score", edges=score_edges())
    assert edges.bins == SCORE_BINS
    binner = Binner([edges])
    assert [binner("s", value) for value in (0.0, 1 / 64, 0.5, 1.0)] == [0, 1, 32, 63]


def test_what_the_route_does_not_count_has_no_bin() -> None:
    assert Binner(CounterEdges())("n", 1.0) is None
