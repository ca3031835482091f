"""The state of a release's evidence: what moves it, what doesn't, and that it can be stored and replayed."""

from __future__ import annotations

import dataclasses
import json

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from registry.statistics import evidence, levels, simulate
from registry.statistics.batch import (
    Batch,
    Layout,
    empty_arm,
    empty_pairs,
    empty_split,
)
from registry.statistics.evidence import Evidence
from registry.statistics.simulate import ArmModel, PairModel, Traffic
from registry.statistics.tolerances import KNOWN_BATCHES, LEARNING_BATCHES
from registry.statistics.trial import Family, Trial, Unit

TRAFFIC = Traffic(seconds=5.0)
FAULT = dataclasses.replace(TRAFFIC, canary=ArmModel(error=0.05, low=0.3))
TRIAL = Trial(simulate.layout(TRAFFIC), flip_rates=(0.011,))


def learned(trial: Trial = TRIAL, replicates: int = 1, seed: int = 1, looks: int = 12) -> Evidence:
    rng = np.random.default_rng(seed)
    state = evidence.begin(trial, replicates)
    for _ in range(looks):
        state = evidence.look(state, simulate.before(TRAFFIC, replicates, rng), trial)
    return state


def family_logs(state: Evidence, trial: Trial = TRIAL) -> list[float]:
    return [float(levels.family_log(state, trial, family)[0]) for family in trial.families]


def same(one: Evidence, other: Evidence) -> bool:
    return json.dumps(one.to_state()) == json.dumps(other.to_state())


def test_stable_alone_teaches_and_moves_no_evidence() -> None:
    state = learned()
    assert state.clumping.errors.learned.all()
    assert state.errors.stable_n[0, 0] > 5000
    assert state.errors.memory.looks.sum() == 0.0
    assert not levels.rolls_back(state, TRIAL).any()
    assert levels.proof_logs(state, TRIAL)[0][1][0] == 0.0


def played(traffic: Traffic, looks: int, replicates: int = 1, seed: int = 2) -> Evidence:
    """A release that begins before anything was learned of stable."""
    rng = np.random.default_rng(seed)
    state = evidence.begin(TRIAL, replicates)
    for _ in range(looks):
        state = evidence.look(state, simulate.batch(traffic, replicates, rng), TRIAL)
    return state


def test_no_evidence_is_taken_before_stable_was_seen_and_no_proof_before_it_is_known() -> None:
    assert played(FAULT, 1).errors.memory.looks.sum() == 0.0
    learning = played(TRAFFIC, LEARNING_BATCHES + 1)
    assert learning.errors.memory.looks[0, 0] == LEARNING_BATCHES
    assert all(level[0] == 0.0 for _, level in levels.proof_logs(learning, TRIAL))


def test_what_no_bursts_explain_rolls_back_while_stable_is_being_learned() -> None:
    broken = dataclasses.replace(TRAFFIC, share=0.5, canary=ArmModel(error=0.54), pairs=PairModel(failed=0.5))
    state = played(broken, 3)
    assert not state.clumping.errors.learned.any()
    assert levels.rolls_back(state, TRIAL).all()


@pytest.mark.parametrize("share", [0.05, 0.5])
def test_bursts_of_a_clean_release_roll_nothing_back_while_stable_is_being_learned(share: float) -> None:
    bursty = dataclasses.replace(TRAFFIC, share=share, burst=5.0)
    state = played(bursty, LEARNING_BATCHES + 1, replicates=1000)
    assert levels.rolls_back(state, TRIAL).mean() <= 0.01


def test_what_is_learned_goes_on_during_the_release_and_stays_fixed_once_it_is_known() -> None:
    batch = simulate.batch(FAULT, 1, np.random.default_rng(2))
    few, enough = learned(looks=KNOWN_BATCHES - 1), learned(looks=KNOWN_BATCHES)
    on = evidence.look(few, batch, TRIAL).clumping
    assert on.errors.batches[0] == KNOWN_BATCHES
    assert evidence.look(enough, batch, TRIAL).clumping.to_state() == enough.clumping.to_state()


def test_of_errors_that_never_happened_the_labels_tell_how_clumped_they_may_be() -> None:
    calm = dataclasses.replace(TRAFFIC, stable=ArmModel(error=0.0), canary=ArmModel(error=0.0))
    told = []
    for burst in (1.0, 5.0):
        state = evidence.begin(TRIAL)
        rng = np.random.default_rng(3)
        for _ in range(20):
            state = evidence.look(
                state, simulate.before(dataclasses.replace(calm, burst=burst), 1, rng), TRIAL
            )
        assert state.errors.stable_x[0, 0] == 0.0
        told.append(float(state.clumping.cautious(state.clumping.errors)[0]))
    independent, bursts = told
    assert independent < 2.0
    assert 5.0 < bursts < 15.0


def test_a_new_step_forgets_proofs_and_keeps_what_speaks_against_the_canary() -> None:
    rng = np.random.default_rng(3)
    state = learned()
    for _ in range(10):
        state = evidence.look(state, simulate.batch(FAULT, 1, rng), TRIAL)
    fresh = evidence.begin_step(state, TRIAL)
    assert fresh.proofs.canary_n[0] == 0.0
    assert all(level[0] == 0.0 for _, level in levels.proof_logs(fresh, TRIAL))
    assert family_logs(fresh) == family_logs(state)


def test_an_empty_batch_changes_no_evidence() -> None:
    state = learned()
    layout = TRIAL.layout
    nothing = Batch(layout, 5.0, empty_arm(layout), empty_arm(layout), empty_pairs(layout), empty_split())
    assert family_logs(evidence.look(state, nothing, TRIAL)) == family_logs(state)


def test_another_layout_is_refused() -> None:
    other = Layout()
    batch = Batch(other, 5.0, empty_arm(other), empty_arm(other), empty_pairs(other), empty_split())
    with pytest.raises(ValueError, match="begin a new trial"):
        evidence.look(learned(), batch, TRIAL)


@settings(max_examples=5, deadline=None)
@given(st.integers(0, 1000), st.floats(0.0, 0.1), st.floats(0.0, 0.5), st.sampled_from(list(Unit)))
def test_storing_between_looks_changes_nothing(seed: int, error: float, low: float, unit: Unit) -> None:
    trial = dataclasses.replace(TRIAL, unit=unit)
    rng = np.random.default_rng(seed)
    traffic = dataclasses.replace(TRAFFIC, canary=ArmModel(error=error, low=low))
    kept = stored = learned(trial)
    for _ in range(4):
        batch = simulate.batch(traffic, 1, rng)
        kept = evidence.look(kept, batch, trial)
        stored = Evidence.from_state(json.loads(json.dumps(stored.to_state())))
        read = Batch.from_state(json.loads(json.dumps(batch.to_state())))
        stored = evidence.look(stored, read, Trial.from_state(json.loads(json.dumps(trial.to_state()))))
    assert same(kept, stored)


def take(value: object, at: int) -> object:
    """One replicate of a batch."""
    if isinstance(value, np.ndarray):
        return value[at : at + 1]
    if isinstance(value, tuple):
        return tuple(take(item, at) for item in value)
    if dataclasses.is_dataclass(value) and not isinstance(value, type | Layout):
        fields = {f.name: take(getattr(value, f.name), at) for f in dataclasses.fields(value)}
        return type(value)(**fields)
    return value


def test_replicates_do_not_touch_one_another() -> None:
    rng = np.random.default_rng(5)
    batches = [simulate.before(TRAFFIC, 3, rng) for _ in range(8)]
    batches += [simulate.batch(FAULT, 3, rng) for _ in range(6)]
    together = evidence.begin(TRIAL, 3)
    alone = evidence.begin(TRIAL, 1)
    for batch in batches:
        together = evidence.look(together, batch, TRIAL)
        one = take(batch, 1)
        assert isinstance(one, Batch)
        alone = evidence.look(alone, one, TRIAL)
    for family in TRIAL.families:
        assert levels.family_log(together, TRIAL, family)[1] == pytest.approx(
            levels.family_log(alone, TRIAL, family)[0]
        )


def test_strata_of_unlike_nodes_and_shares_make_no_difference_between_equal_arms() -> None:
    """Simpson: the canary has most of its requests on the node that fails more; pooled it would look bad."""
    rng = np.random.default_rng(6)
    layout = Layout()
    trial = Trial(layout, mirrored=False)
    rates, canary_n, stable_n = np.array([[0.001, 0.05]]), np.array([[50, 450]]), np.array([[950, 50]])

    def arm(n: np.ndarray) -> object:
        errors = rng.binomial(n, rates).astype(float)
        return dataclasses.replace(empty_arm(layout, 1, 2), n=n.astype(float), errors=errors[..., None])

    state, pooled = evidence.begin(trial), evidence.begin(trial)
    for t in range(60):
        canary = arm(canary_n if t >= 10 else 0 * canary_n)
        batch = Batch(layout, 5.0, canary, arm(stable_n), empty_pairs(layout, 1, 2), empty_split(1, 2))  # type: ignore[arg-type]
        state = evidence.look(state, batch, trial)
        pooled = evidence.look(pooled, add_strata(batch), trial)
    assert not levels.rolls_back(state, trial)[0]
    assert levels.rolls_back(pooled, trial)[0]


def add_strata(batch: Batch) -> Batch:
    def total(arm: object) -> object:
        fields = {}
        for f in dataclasses.fields(arm):  # type: ignore[arg-type]
            value = getattr(arm, f.name)
            fields[f.name] = value if isinstance(value, tuple) else value.sum(axis=1, keepdims=True)
        return type(arm)(**fields)

    return Batch(
        batch.layout,
        batch.seconds,
        total(batch.canary),  # type: ignore[arg-type]
        total(batch.stable),  # type: ignore[arg-type]
        empty_pairs(batch.layout),
        empty_split(),
    )


def test_sticky_users_are_judged_by_pairs_and_slow_runs_alone() -> None:
    """Unpaired rates differ by who is in the canary: they must not decide."""
    trial = dataclasses.replace(TRIAL, unit=Unit.KEY)
    others = dataclasses.replace(
        TRAFFIC, canary=ArmModel(error=0.05, low=0.4, mix=(0.1, 0.2, 0.3, 0.2, 0.1, 0.1))
    )
    rng = np.random.default_rng(7)
    state = learned(trial)
    free = state
    for _ in range(60):
        batch = simulate.batch(others, 1, rng)
        state = evidence.look(state, batch, trial)
        free = evidence.look(free, batch, TRIAL)
    assert not levels.rolls_back(state, trial)[0]
    assert levels.rolls_back(free, TRIAL)[0]
    worse = dataclasses.replace(others, pairs=PairModel(failed=0.05))
    for _ in range(60):
        state = evidence.look(state, simulate.batch(worse, 1, rng), trial)
    assert levels.rolls_back(state, trial)[0]


def test_the_weights_of_a_family_sum_to_one() -> None:
    for unit in Unit:
        trial = dataclasses.replace(TRIAL, unit=unit)
        for family in trial.families:
            assert sum(trial.weights(family).values()) == pytest.approx(1.0)
    assert Family.SLOW not in Trial(Layout()).families


def test_a_trial_that_nothing_could_decide_is_refused() -> None:
    with pytest.raises(ValueError, match="switch mirroring on"):
        Trial(Layout(), unit=Unit.KEY, mirrored=False)
    with pytest.raises(ValueError, match="one per class observable"):
        Trial(simulate.layout(TRAFFIC))
