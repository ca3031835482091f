"""Answers in the bins of the route, whatever the version calls its fields."""

import pytest

from registry.contract.counters import CounterEdges, ObservableEdges
from registry.contract.pipeline import Classify, PipelineSpec
from registry.contract.versions import Dtype, Observable, Signature, TensorSpec, VersionContract
from serving.pipeline.errors import PipelineMismatch
from serving.telemetry.observables import Watcher

EDGES = CounterEdges(
    observables=(
        ObservableEdges(name="label", kind="class", labels=("a", "b")),
        ObservableEdges(name="score", kind="score", edges=(0.25, 0.5), low=0.5),
        ObservableEdges(name="elsewhere", kind="value", edges=(1.0,)),
    )
)


def contract(*observables: Observable) -> VersionContract:
    return VersionContract(
        signature=Signature(
            inputs=(TensorSpec(name="x", dtype=Dtype.FP32, shape=("n", 4)),),
            outputs=(TensorSpec(name="y", dtype=Dtype.FP32, shape=("n", 3)),),
        ),
        pipeline=PipelineSpec(post=(Classify(output="y"),)),
        observables=observables,
    )


LABEL = Observable(name="label", kind="class", source="label")
SCORE = Observable(name="score", kind="score", source="score")
OWN = Observable(name="own", kind="count", source="index")


def test_bins_and_low() -> None:
    watcher = Watcher(EDGES, contract(LABEL, SCORE, OWN))
    first, second = watcher.see(
        [{"label": "b", "score": 0.25, "index": 1}, {"label": "zebra", "score": 0.9, "index": 2}]
    )
    assert [(seen.edges.name, seen.bin, seen.low) for seen in first] == [
        ("label", 1, False),
        ("score", 1, True),
    ]
    assert [(seen.bin, seen.low) for seen in second] == [(2, False), (2, False)]


def test_nothing_is_seen_where_route_and_version_share_nothing() -> None:
    assert Watcher(EDGES, contract(OWN)).see([{"label": "a", "score": 1.0, "index": 0}]) == ()


def test_what_can_not_be_counted_is_told() -> None:
    with pytest.raises(PipelineMismatch):
        Watcher(EDGES, contract(LABEL)).see([{"label": [1], "score": 0.1}])
