"""One glance: what is said of a deployment in each of its states, and that doubt is never green."""

import pytest

from registry.contract.releases import Hold, ReleasePhase
from registry.contract.verdicts import VerdictKind
from tests.web.views import made
from web.views.facts import Facts
from web.views.verdict import Judgement, Level, judge

ON_TRIAL = made.deployment(active_release=2)


def trial(**values: object) -> Judgement:
    return judge(made.facts(ON_TRIAL, release=made.release(**values)))


def test_a_settled_deployment_is_healthy_only_where_all_nodes_say_so() -> None:
    healthy = judge(made.facts())
    assert (healthy.level, healthy.word) == (Level.GOOD, "Healthy")
    assert healthy.sentence == "v1 serves all traffic on 2 of 2 nodes."
    for nodes in (
        (made.node("n1"), made.node("n2", fresh=False)),
        (made.node("n1", fresh=False), made.node("n2", fresh=False)),
        (made.node("n1"), made.node("n2", published=False, failed="out of memory")),
    ):
        assert judge(made.facts(None, *nodes)).level is not Level.GOOD
    assert judge(Facts(made.deployment(), made.status(), None, None)).word == "No node"
    assert judge(Facts(made.deployment(), None, None, None)).level is Level.UNKNOWN


def test_a_node_that_cannot_load_is_named_with_its_reason() -> None:
    found = judge(made.facts(None, made.node("n1"), made.node("n2", published=False, failed="out of memory")))
    assert found.level is Level.WARN
    assert "n2 (out of memory) can't load it" in found.sentence


def test_silence_is_said_beside_everything_else() -> None:
    nodes = (made.node("n1"), made.node("n2", fresh=False))
    release = made.release(verdict=made.verdict(VerdictKind.ADVANCE))
    assert trial(verdict=made.verdict(VerdictKind.ADVANCE)).level is Level.GOOD
    found = judge(made.facts(ON_TRIAL, *nodes, release=release))
    assert found.level is Level.UNKNOWN
    assert found.sentence.endswith("n2 is silent.")
    frozen = judge(
        made.facts(ON_TRIAL, *nodes, release=made.release(hold=Hold.FROZEN, reason="split is off"))
    )
    assert (frozen.level, frozen.word) == (Level.BAD, "Frozen")
    assert "n2 is silent." in frozen.sentence


@pytest.mark.parametrize(
    ("values", "level", "word"),
    [
        ({"hold": Hold.FROZEN}, Level.BAD, "Frozen"),
        ({"hold": Hold.PAUSED}, Level.WARN, "Paused"),
        ({"phase": ReleasePhase.AWAITING_APPROVAL, "approvals_needed": 2}, Level.BUSY, "Waits for approval"),
        ({"phase": ReleasePhase.PREPARING}, Level.BUSY, "Preparing"),
        ({"phase": ReleasePhase.COMPLETING}, Level.BUSY, "Completing"),
        ({}, Level.BUSY, "On trial"),
        ({"verdict": made.verdict(VerdictKind.HOLD)}, Level.BUSY, "On trial"),
        ({"verdict": made.verdict(VerdictKind.INCONCLUSIVE)}, Level.WARN, "Inconclusive"),
        ({"verdict": made.verdict(VerdictKind.ROLL_BACK)}, Level.BAD, "Roll back"),
    ],
)
def test_a_release_under_way(values: dict[str, object], level: Level, word: str) -> None:
    found = trial(**values)
    assert (found.level, found.word) == (level, word)


def test_a_rollback_comes_first_until_it_is_closed() -> None:
    pinned = made.deployment(pinned=True, pin_reason="bad labels", pinned_by="ana")
    under_way = judge(made.facts(pinned, receipt=made.receipt("drained", "waiting")))
    assert (under_way.level, under_way.word) == (Level.BAD, "Rolling back")
    assert under_way.sentence == "1 of 2 nodes back on v1."
    closed = judge(made.facts(pinned, receipt=made.receipt("drained", "drained", final="All 2 nodes …")))
    assert (closed.level, closed.word) == (Level.WARN, "Rolled back")
    by_hand = judge(made.facts(pinned))
    assert by_hand.word == "Pinned"
