"""Deltas as a batch: figures worked out by hand."""

from datetime import UTC, datetime

import numpy as np
import pytest

from registry.contract.counters import LATENCY_BINS, CounterEdges, ObservableEdges
from registry.contract.routes import ArmRole, Fence, Route, RouteArm, RouteCause, RoutingUnit
from registry.drift.baseline import Baseline, Tail, baseline, low_edge
from registry.drift.batches import Compared, build, of_stable
from registry.drift.cells import Fields
from registry.drift.rollup import ArmDelta
from registry.statistics.twosample import Side
from tests.registry.nodes.world import EDGES, arm_name

STABLE, CANARY = arm_name(1), arm_name(2)
KNOWN = Baseline(slow=(10, *(LATENCY_BINS,) * 5), tails=(Tail("score", Side.BELOW, 2),))
COMPARED = Compared(CANARY, STABLE, EDGES, KNOWN)


def route(generation: int, canary_share: int, unit: str = "request", edges: CounterEdges = EDGES) -> Route:
    return Route(
        deployment="prod/files",
        fence=Fence(registry_id="reg", timeline=1, generation=generation),
        cause=RouteCause.STEP,
        actor="t",
        reason="",
        arms=(
            RouteArm(arm=STABLE, version="m@1@fp32", role=ArmRole.STABLE, share=10_000 - canary_share),
            RouteArm(arm=CANARY, version="m@2@fp32", role=ArmRole.CANARY, share=canary_share),
        ),
        keep=(),
        unit=RoutingUnit(kind=unit),
        salt="s",
        edges=edges,
        created_at=datetime(2026, 1, 1, tzinfo=UTC),
    )


def delta(
    node: str, generation: int, arm: str, fields: dict[str, dict[int, int]], *, gap: bool = False
) -> ArmDelta:
    arrays: Fields = {}
    for name, cells in fields.items():
        size = {"observable.label": 3, "observable.score": 4}.get(name, 3 if ".label." in name else 1)
        array = np.zeros(LATENCY_BINS if "_us" in name else size, dtype=np.int64)
        for at, n in cells.items():
            array[at] = n
        arrays[name] = array
    return ArmDelta(node, generation, arm, 2.0, gap, arrays)


def test_one_node_one_generation() -> None:
    batch = build(
        [
            delta(
                "a",
                5,
                CANARY,
                {
                    "assigned": {0: 20},
                    "outcome.ok": {0: 14},
                    "outcome.timeout": {0: 2},
                    "outcome.rejected": {0: 3},
                    "engine_us.1": {3: 6, 10: 4, 12: 1},
                    "engine_us.8": {3: 6},
                    "observable.label": {0: 10, 2: 4},
                    "observable.score": {0: 1, 1: 2, 3: 11},
                    "pairs.n": {0: 12},
                    "pairs.compared": {0: 10},
                    "pairs.canary_failed": {0: 1},
                    "pairs.stable_failed": {0: 1},
                    "pairs.label.in": {1: 3},
                    "pairs.label.out": {0: 2, 2: 1},
                    "pairs.score.canary_low": {0: 4},
                },
            ),
            delta("a", 5, STABLE, {"assigned": {0: 180}, "outcome.ok": {0: 180}}),
        ],
        {5: route(5, 1000)},
        COMPARED,
    )
    assert batch is not None
    assert batch.seconds == 2
    assert batch.canary.n.tolist() == [[16]]
    kinds = batch.layout.error_kinds
    assert batch.canary.errors[0, 0, kinds.index("timeout")] == 2
    assert batch.canary.errors.sum() == 2
    assert batch.canary.timed[0, 0].tolist() == [11, 0, 0, 0, 0, 0]
    assert batch.canary.slow[0, 0].tolist() == [5, 0, 0, 0, 0, 0]
    assert batch.layout.tails == ("score low",)
    assert (batch.canary.observed[0, 0, 0], batch.canary.tails[0, 0, 0]) == (14, 3)
    assert [mix.tolist() for mix in batch.canary.mixes] == [[[[10, 0, 4]]], [[[1, 2, 0, 11]]]]
    assert batch.stable.n.tolist() == [[180]]
    assert (batch.pairs.n[0, 0], batch.pairs.canary_failed[0, 0], batch.pairs.stable_failed[0, 0]) == (
        12,
        1,
        1,
    )
    (mix,) = batch.pairs.mixes
    assert (mix.compared[0, 0], mix.flips[0, 0]) == (10, 3)
    assert mix.inflow[0, 0].tolist() == [0, 3, 0]
    assert mix.outflow[0, 0].tolist() == [2, 0, 1]
    assert (batch.pairs.compared[0, 0, 0], batch.pairs.canary_tail[0, 0, 0]) == (10, 4)
    assert (batch.split.share[0, 0], batch.split.canary[0, 0], batch.split.total[0, 0]) == (0.1, 20, 200)


def test_strata_are_nodes_within_generations() -> None:
    batch = build(
        [
            delta("b", 6, CANARY, {"assigned": {0: 5}, "outcome.ok": {0: 5}}),
            delta("a", 5, CANARY, {"assigned": {0: 1}, "outcome.ok": {0: 1}}),
            delta("a", 5, STABLE, {"assigned": {0: 9}, "outcome.ok": {0: 9}}),
            delta("a", 6, STABLE, {"assigned": {0: 7}, "outcome.ok": {0: 7}}),
        ],
        {5: route(5, 1000), 6: route(6, 2500)},
        COMPARED,
    )
    assert batch is not None
    assert batch.canary.n.tolist() == [[1, 0, 5]]
    assert batch.stable.n.tolist() == [[9, 7, 0]]
    assert batch.split.share.tolist() == [[0.1, 0.25, 0.25]]


def test_a_gap_silences_both_arms_of_the_node() -> None:
    counts = {"assigned": {0: 5}, "outcome.ok": {0: 5}}
    batch = build(
        [
            delta("a", 5, CANARY, counts, gap=True),
            delta("a", 5, STABLE, counts),
            delta("b", 5, STABLE, counts),
        ],
        {5: route(5, 1000)},
        COMPARED,
    )
    assert batch is not None
    assert batch.stable.n.tolist() == [[5]]
    assert build([delta("a", 5, CANARY, counts, gap=True)], {5: route(5, 1000)}, COMPARED) is None


def test_late_answers_of_a_canary_without_a_share_are_left_out() -> None:
    counts = {"assigned": {0: 5}, "outcome.ok": {0: 5}}
    batch = build([delta("a", 7, CANARY, counts), delta("a", 7, STABLE, counts)], {7: route(7, 0)}, COMPARED)
    assert batch is not None
    assert batch.canary.n.tolist() == [[0]]
    assert batch.split.total.tolist() == [[0]]


def test_answers_that_ended_later_than_they_were_assigned_are_no_contradiction() -> None:
    batch = build(
        [delta("a", 5, CANARY, {"outcome.timeout": {0: 4}, "pairs.label.in": {0: 2}})],
        {5: route(5, 1000)},
        COMPARED,
    )
    assert batch is not None
    assert (batch.canary.n[0, 0], batch.canary.errors.sum()) == (4, 4)
    assert batch.pairs.mixes[0].compared[0, 0] == 2


def test_sticky_users_are_no_measure_of_the_split() -> None:
    counts = {"assigned": {0: 5}, "outcome.ok": {0: 5}}
    batch = build([delta("a", 5, CANARY, counts)], {5: route(5, 1000, unit="key")}, COMPARED)
    assert batch is not None
    assert batch.split.total.tolist() == [[0]]


def test_other_edges_and_unknown_generations_are_not_compared() -> None:
    counts = {"assigned": {0: 5}, "outcome.ok": {0: 5}}
    other = CounterEdges(observables=(ObservableEdges(name="label", kind="class", labels=("x",)),))
    deltas = [delta("a", 5, CANARY, counts), delta("a", 6, CANARY, counts)]
    assert build(deltas, {5: route(5, 1000, edges=other)}, COMPARED) is None
    lower = CounterEdges(
        observables=tuple(each.model_copy(update={"low": None}) for each in EDGES.observables)
    )
    assert build(deltas, {5: route(5, 1000, edges=lower)}, COMPARED) is not None


def test_the_baseline_cuts_at_stables_quantiles() -> None:
    engine = np.zeros(LATENCY_BINS, dtype=np.int64)
    engine[[20, 30, 40]] = [500, 490, 10]
    value = np.array([5, 40, 50, 5], dtype=np.int64)
    edges = CounterEdges(
        observables=(
            ObservableEdges(name="score", kind="score", edges=(0.25, 0.5, 0.75)),
            ObservableEdges(name="size", kind="value", edges=(1, 2, 3)),
            ObservableEdges(name="unseen", kind="value", edges=(1, 2, 3)),
        )
    )
    score = np.array([1, 9, 40, 50], dtype=np.int64)
    found = baseline(edges, {"engine_us.1": engine, "observable.score": score, "observable.size": value})
    # 990 of 1,000 runs lie below bin 31 (and up to 40, where the slow ones are).
    assert 31 <= found.slow[0] <= 40
    assert found.slow[1:] == (LATENCY_BINS,) * 5
    assert found.tails == (
        Tail("score", Side.BELOW, 2),
        Tail("size", Side.BELOW, 1),
        Tail("size", Side.ABOVE, 3),
    )
    assert low_edge(edges.observables[0], score) == 0.5
    assert low_edge(edges.observables[0], None) is None


def test_a_low_that_the_route_states_is_kept() -> None:
    score = np.array([50, 40, 9, 1], dtype=np.int64)
    assert baseline(EDGES, {"observable.score": score}).tails == (Tail("score", Side.BELOW, 2),)


def test_a_baseline_survives_being_stored() -> None:
    assert Baseline.from_state(KNOWN.to_state()) == KNOWN


def test_stables_windows_teach_and_prove_nothing() -> None:
    window = delta("", 1, STABLE, {"outcome.ok": {0: 90}, "outcome.timeout": {0: 10}}).fields
    (batch,) = of_stable([window], COMPARED)
    assert batch.stable.n.tolist() == [[100]]
    assert batch.canary.n.sum() == 0
    assert batch.seconds == pytest.approx(10)
