"""The move tables: what must be true of every one of them, and of releases above all."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from registry.contract.deployments import Policy
from registry.contract.releases import Hold, ReleasePhase
from registry.contract.verdicts import VerdictKind
from registry.lifecycle.builds import BUILD_MOVES
from registry.lifecycle.moves import MoveTable
from registry.lifecycle.releases import ACTIVE_PHASES, RELEASE_MOVES, ReleaseEvent
from registry.lifecycle.tasks import TASK_MOVES
from registry.lifecycle.uploads import UPLOAD_MOVES
from registry.lifecycle.verdicts import consequence
from registry.lifecycle.versions import VERSION_MOVES

TABLES: list[MoveTable[Any, Any]] = [BUILD_MOVES, RELEASE_MOVES, TASK_MOVES, UPLOAD_MOVES, VERSION_MOVES]


@pytest.mark.parametrize("table", TABLES)
def test_every_phase_can_be_reached_from_the_first(table: MoveTable[Any, Any]) -> None:
    reached = {table.first}
    while new := {target for phase, _, target in table.edges() if phase in reached} - reached:
        reached |= new
    assert reached == set(table.phases)


@pytest.mark.parametrize("phase", [*sorted(ACTIVE_PHASES), ReleasePhase.COMPLETED])
def test_a_release_can_be_rolled_back_from_every_live_phase(phase: ReleasePhase) -> None:
    assert RELEASE_MOVES.target(phase, ReleaseEvent.ROLL_BACK) is ReleasePhase.ROLLING_BACK


def test_a_refusal_names_what_is_possible() -> None:
    told = RELEASE_MOVES.refusal("completed", ReleaseEvent.STEP)
    assert told == "it is completed: advance is not possible; possible now: roll back"


def test_a_refusal_speaks_of_what_people_can_ask_for() -> None:
    told = RELEASE_MOVES.refusal("rolling_back", ReleaseEvent.LAST_STEP)
    assert told == "it is rolling back: advance is not possible; it goes on by itself"
    over = RELEASE_MOVES.refusal("aborted", ReleaseEvent.ABORT)
    assert over == "it is aborted: abort is not possible; nothing moves it any more"


@pytest.mark.parametrize("table", TABLES)
def test_no_refusal_has_words_of_the_inside(table: MoveTable[Any, Any]) -> None:
    for phase in table.phases:
        for event in table.events:
            assert "_" not in table.refusal(phase, event)


@given(st.lists(st.sampled_from(ReleaseEvent), max_size=12))
def test_random_events_never_leave_an_end(events: list[ReleaseEvent]) -> None:
    phase: ReleasePhase = ReleasePhase.DRAFT
    for event in events:
        target = RELEASE_MOVES.target(phase, event)
        if phase in RELEASE_MOVES.terminal:
            assert target is None
        phase = target or phase


@given(
    st.sampled_from(ReleasePhase),
    st.sampled_from(["", *Hold]),
    st.sampled_from(VerdictKind),
    st.booleans(),
    st.booleans(),
)
def test_what_a_verdict_may_do(
    phase: ReleasePhase, hold: str, verdict: VerdictKind, auto_advance: bool, auto_roll_back: bool
) -> None:
    policy = Policy(auto_advance=auto_advance, auto_roll_back=auto_roll_back)
    action = consequence(phase, hold, verdict, policy).action
    if phase is not ReleasePhase.RUNNING:
        assert action == "nothing"
    if action == "step":
        assert auto_advance and verdict is VerdictKind.ADVANCE
        assert hold not in (Hold.PAUSED, Hold.FROZEN), "evidence never overrules a person's pause"
    if verdict is VerdictKind.ROLL_BACK and phase is ReleasePhase.RUNNING:
        assert action == ("roll_back" if auto_roll_back else "freeze"), "bad evidence works through holds"
