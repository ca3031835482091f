"""What the controller does for what nodes say: every branch, without a clock or a database."""

from datetime import UTC, datetime, timedelta

import pytest

from registry.contract.releases import ReleasePhase
from registry.lifecycle import tending
from registry.lifecycle.tending import Begin, Complete, GiveUp, NodeState, Returned, Wait

NOW = datetime(2026, 1, 1, 12, 0, tzinfo=UTC)


def node(
    name: str,
    *,
    fresh: bool = True,
    ready: bool = False,
    failure: str | None = None,
    drained: bool = False,
) -> NodeState:
    return NodeState(name, name, fresh, ready, failure, drained, drained)


def decide(
    phase: ReleasePhase, *nodes: NodeState, waited_s: float = 1, min_ready: int = 1
) -> tending.Decision:
    return tending.decide(
        phase,
        nodes,
        min_ready=min_ready,
        since=NOW - timedelta(seconds=waited_s),
        now=NOW,
        prepare_limit_s=100,
        node_timeout_s=10,
    )


def test_preparing_waits_for_nodes_that_load() -> None:
    found = decide(ReleasePhase.PREPARING, node("a", ready=True), node("b"))
    assert found == Wait("1 of 2 nodes are ready; loading: b")


def test_preparing_begins_when_all_are_ready_and_ignores_silent_nodes() -> None:
    assert decide(ReleasePhase.PREPARING, node("a", ready=True), node("b", fresh=False)) == Begin(())


def test_a_node_that_failed_is_left_out_when_enough_remain() -> None:
    failed = node("b", failure="no memory")
    assert decide(ReleasePhase.PREPARING, node("a", ready=True), failed) == Begin((failed,))


def test_too_few_nodes_give_up_with_their_reasons() -> None:
    failed = node("b", failure="no memory")
    found = decide(ReleasePhase.PREPARING, node("a", ready=True), failed, min_ready=2)
    assert isinstance(found, GiveUp)
    assert "b: no memory" in found.reason


def test_no_node_at_all_waits_and_then_gives_up() -> None:
    assert isinstance(decide(ReleasePhase.PREPARING), Wait)
    assert isinstance(decide(ReleasePhase.PREPARING, waited_s=200), GiveUp)


def test_completion_waits_for_live_nodes_and_names_laggards_after_the_limit() -> None:
    slow = node("b")
    assert isinstance(decide(ReleasePhase.COMPLETING, node("a", drained=True), slow), Wait)
    late = decide(ReleasePhase.COMPLETING, node("a", drained=True), slow, waited_s=11)
    assert late == Complete((slow,))


def test_a_rollback_is_over_when_every_live_node_confirmed() -> None:
    silent = node("b", fresh=False)
    assert decide(ReleasePhase.ROLLING_BACK, node("a", drained=True), silent) == Returned((silent,))


def test_other_phases_wait_for_no_node() -> None:
    with pytest.raises(ValueError, match="waits for no node"):
        decide(ReleasePhase.RUNNING)
