"""The decision rule, verdict by verdict."""

from __future__ import annotations

import dataclasses
import functools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from registry.contract.verdicts import VerdictKind
from registry.statistics import evidence, simulate
from registry.statistics.decide import Decision, StepClock, decide
from registry.statistics.evidence import Evidence
from registry.statistics.gates import Pace
from registry.statistics.simulate import ArmModel, PairModel, Traffic
from registry.statistics.trial import Trial, Unit

TRAFFIC = Traffic(seconds=20.0)
TRIAL = Trial(simulate.layout(TRAFFIC), flip_rates=(0.011,))
PACE = Pace(5.0, 5.0)
LONG = StepClock(elapsed_s=1000.0, dwell_s=60.0, longest_hold_s=3600.0)


@functools.cache
def after(traffic: Traffic, looks: int, trial: Trial = TRIAL, seed: int = 1) -> Evidence:
    rng = np.random.default_rng(seed)
    state = evidence.begin(trial)
    for _ in range(12):
        state = evidence.look(state, simulate.before(TRAFFIC, 1, rng), trial)
    for _ in range(looks):
        state = evidence.look(state, simulate.batch(traffic, 1, rng), trial)
    return state


def verdict(traffic: Traffic, looks: int, trial: Trial = TRIAL, clock: StepClock = LONG) -> Decision:
    return decide(after(traffic, looks, trial), trial, clock, PACE)


def test_no_data_is_hold_however_long_it_lasts() -> None:
    late = StepClock(elapsed_s=1e6, dwell_s=60.0, longest_hold_s=3600.0)
    found = verdict(TRAFFIC, 0, clock=late)
    assert found.kind is VerdictKind.HOLD
    assert "no canary requests" in found.sentence


def test_errors_roll_back_and_the_sentence_has_the_counts() -> None:
    found = verdict(dataclasses.replace(TRAFFIC, canary=ArmModel(error=0.06)), 6)
    assert found.kind is VerdictKind.ROLL_BACK
    assert found.gate is not None
    assert (found.gate.family, found.gate.threshold) == ("errors", 400.0)
    assert found.gate.value is not None and found.gate.value >= 400.0
    assert f"of {found.canary_n:,}" in found.sentence
    assert f"of {found.stable_n:,}" in found.sentence


@pytest.mark.parametrize(
    ("fault", "family", "words"),
    [
        (dataclasses.replace(TRAFFIC, pairs=PairModel(flips=0.25)), "classes", "flip on the same input"),
        (dataclasses.replace(TRAFFIC, canary=ArmModel(slow=0.2)), "slow", "at equal batch size"),
        (dataclasses.replace(TRAFFIC, canary=ArmModel(low=0.46), mirror=0.0), "scores", "score low"),
        (dataclasses.replace(TRAFFIC, pairs=PairModel(low=0.3)), "scores", "on the same input"),
        (dataclasses.replace(TRAFFIC, pairs=PairModel(failed=0.1)), "errors", "canary alone failed"),
    ],
)
def test_each_fault_is_named_by_its_family(fault: Traffic, family: str, words: str) -> None:
    found = verdict(fault, 10)
    assert found.kind is VerdictKind.ROLL_BACK
    assert found.gate is not None and found.gate.family == family
    assert words in found.sentence


def test_bad_evidence_has_not_passed_while_stable_is_being_learned() -> None:
    worse = dataclasses.replace(TRAFFIC, canary=ArmModel(error=0.05), pairs=PairModel(flips=0.1))
    rng, state = np.random.default_rng(1), evidence.begin(TRIAL)
    for _ in range(2):
        state = evidence.look(state, simulate.batch(worse, 1, rng), TRIAL)
    found = decide(state, TRIAL, LONG, PACE)
    assert found.kind is VerdictKind.HOLD and "learning how stable varies (2 of 6 looks" in found.sentence
    deciding = [gate for gate in found.gates if gate.purpose in ("roll_back", "shown")]
    assert len(deciding) == 5
    assert {gate.outcome for gate in deciding} == {"not_enough_data"}
    errors = next(gate for gate in deciding if gate.family == "errors")
    assert errors.sentence.startswith("not judged yet") and f"of {found.canary_n:,}" in errors.sentence


def test_a_wrong_split_freezes_before_anything_else_is_believed() -> None:
    found = verdict(dataclasses.replace(TRAFFIC, shift=2.0, canary=ArmModel(error=0.2)), 10)
    assert found.kind is VerdictKind.FREEZE
    assert found.gate is not None and found.gate.name == "split"
    assert any(gate.purpose == "roll_back" and gate.outcome == "fired" for gate in found.gates)


def test_a_difference_within_one_engine_freezes_and_between_engines_is_only_shown() -> None:
    """A change of class shares that every tolerance allows."""
    changed = dataclasses.replace(
        TRAFFIC, canary=ArmModel(mix=(0.39, 0.24, 0.16, 0.11, 0.06, 0.04)), rate=1e4
    )
    frozen = verdict(changed, 20, dataclasses.replace(TRIAL, same_engine=True))
    assert frozen.kind is VerdictKind.FREEZE
    assert frozen.gate is not None and frozen.gate.family == "distribution"
    found = verdict(changed, 20)
    assert found.kind is VerdictKind.ADVANCE
    (shown,) = [gate for gate in found.gates if gate.family == "distribution"]
    assert (shown.outcome, shown.purpose) == ("differs", "shown")


def test_a_good_canary_advances_once_proven_and_dwelt() -> None:
    state = after(TRAFFIC, 75)
    early = decide(state, TRIAL, StepClock(30.0, 60.0, 3600.0), PACE)
    assert early.kind is VerdictKind.HOLD
    assert "dwell ends in 30 s" in early.sentence
    found = decide(state, TRIAL, LONG, PACE)
    assert found.kind is VerdictKind.ADVANCE
    assert all(gate.outcome == "passed" for gate in found.gates if gate.purpose == "advance")


def test_what_is_not_proven_holds_with_the_time_it_needs_and_at_last_asks() -> None:
    state = after(TRAFFIC, 3)
    found = decide(state, TRIAL, StepClock(100.0, 60.0, 3600.0), PACE)
    assert found.kind is VerdictKind.HOLD
    assert found.gate is not None and found.gate.wait_s is not None
    # 300 of the 1,953 requests are there; 5 a second come.
    assert 200.0 < found.gate.wait_s < 600.0
    assert "more at present traffic" in found.sentence
    asked = decide(state, TRIAL, StepClock(3600.0, 60.0, 3600.0), PACE)
    assert asked.kind is VerdictKind.INCONCLUSIVE
    assert "ask a person" in asked.sentence


def test_without_pairs_flips_are_not_proven() -> None:
    found = verdict(dataclasses.replace(TRAFFIC, mirror=0.0), 75)
    assert found.kind is VerdictKind.HOLD
    assert found.gate is not None
    assert (found.gate.name, found.gate.outcome) == ("label flips proven", "not_enough_data")
    unmirrored = verdict(
        dataclasses.replace(TRAFFIC, mirror=0.0), 75, dataclasses.replace(TRIAL, mirrored=False)
    )
    assert unmirrored.kind is VerdictKind.ADVANCE


def test_stable_unknown_is_said() -> None:
    rng = np.random.default_rng(1)
    state = evidence.look(evidence.begin(TRIAL), simulate.batch(TRAFFIC, 1, rng), TRIAL)
    found = decide(state, TRIAL, LONG, PACE)
    assert found.kind is VerdictKind.HOLD
    assert "learning how stable varies (1 of 6" in found.sentence


def test_sticky_users_unpaired_difference_is_shown_with_its_reason() -> None:
    trial = dataclasses.replace(TRIAL, unit=Unit.KEY)
    found = verdict(dataclasses.replace(TRAFFIC, canary=ArmModel(error=0.05)), 30, trial)
    assert found.kind is not VerdictKind.ROLL_BACK
    (shown,) = [gate for gate in found.gates if gate.purpose == "shown" and gate.family == "errors"]
    assert shown.outcome == "differs"
    assert "differs by who is in it" in shown.sentence


@settings(max_examples=6, deadline=None)
@given(
    st.floats(0.0, 1.0),
    st.floats(0.0, 1.0),
    st.floats(0.0, 0.6),
    st.integers(0, 6),
    st.sampled_from(list(Unit)),
)
def test_every_verdict_has_finite_figures_and_a_sentence(
    error: float, low: float, flips: float, looks: int, unit: Unit
) -> None:
    traffic = dataclasses.replace(
        TRAFFIC,
        canary=ArmModel(error=error, low=low, slow=error),
        pairs=PairModel(flips=flips, failed=low / 3),
    )
    trial = dataclasses.replace(TRIAL, unit=unit)
    found = verdict(traffic, looks, trial)
    assert found.sentence
    for gate in found.gates:
        assert gate.value is not None and np.isfinite(gate.value)
        assert gate.wait_s is None or gate.wait_s >= 0.0
        assert (gate.outcome == "fired") == (
            gate.purpose in ("roll_back", "freeze") and gate.value >= (gate.threshold or 0.0)
        )
