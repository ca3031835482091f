"""Seeded simulations of releases: what must never happen, and how fast faults are caught.

100 requests/s, 5 % canary, routing unit request, unless said otherwise. R = 60 replicates of 2 h here; the
full tables (R = 600, 24 h) are `./run bench statistics`.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from registry.statistics.scenario import Scenario, play
from registry.statistics.simulate import ArmModel, PairModel, Traffic
from registry.statistics.trial import Unit

R = 60
LONG = Traffic(seconds=20.0)
SHORT = Traffic(seconds=4.0)
INT8 = ArmModel(slow=0.008, low=0.115, mix=(0.395, 0.254, 0.152, 0.099, 0.06, 0.04))
# Errors that hit both arms at random: pairs see them alone on either side.
NOISY = PairModel(failed=0.005, failed_noise=0.005)


def test_an_a_a_release_is_neither_frozen_nor_rolled_back() -> None:
    played = play(Scenario(LONG, same_engine=True), R, seed=1)
    # Allowed over 24 h: 0.3 % rolled back and 1.25 % frozen, so one of 60 in 2 h would be rare already.
    assert played.rolled_back == 0.0
    assert played.frozen <= 1 / R


def test_an_honest_int8_is_never_frozen_nor_rolled_back_and_is_proven() -> None:
    honest = replace(LONG, canary=INT8, pairs=replace(NOISY, flips=0.008, low=0.02, low_noise=0.005))
    played = play(Scenario(honest), R, seed=2)
    assert (played.rolled_back, played.frozen) == (0.0, 0.0)
    assert np.isfinite(played.proven_s).mean() > 0.95


def test_bursts_of_identical_requests_need_the_dispersion() -> None:
    bursty = replace(LONG, burst=5.0)
    with_phi = play(Scenario(bursty, same_engine=True), R, seed=3)
    assert with_phi.rolled_back <= 1 / R
    assert with_phi.frozen <= 2 / R
    without = play(Scenario(bursty, fault=bursty, dispersed=False, same_engine=True), R, seed=3)
    assert without.rolled_back >= 0.95


@pytest.mark.parametrize("learned", [0, 6])
@pytest.mark.parametrize("share", [0.05, 0.5])
def test_bursts_roll_no_clean_release_back_of_whose_stable_arm_little_was_learned(
    share: float, learned: int
) -> None:
    # Taking φ of six batches for granted rolled 13 % back at a share of 5 %, 33 % at one half.
    bursty = Traffic(burst=5.0, share=share)
    played = play(Scenario(bursty, seconds=1200.0, learn_looks=learned), 2 * R, seed=10)
    assert played.rolled_back <= 2 / (2 * R)


def test_learning_little_delays_what_is_found_by_little() -> None:
    fault = replace(SHORT, canary=ArmModel(low=0.46), pairs=PairModel(low=0.38, low_noise=0.02, flips=0.25))
    played = play(Scenario(SHORT, fault, learn_looks=6, seconds=400.0), R, seed=11)
    assert played.rolled_back == 1.0
    assert np.median(played.rolled_back_s) <= 16.0


def test_errors_from_half_a_percent_to_two_are_caught_in_about_three_minutes() -> None:
    fault = replace(SHORT, canary=ArmModel(error=0.02), pairs=replace(NOISY, failed=0.02), mirror=0.0)
    played = play(Scenario(replace(SHORT, mirror=0.0), fault), R, seed=4)
    # 170 s over many replicates; the median of 60 has a standard error of about 15 s.
    assert 120.0 <= np.median(played.rolled_back_s) <= 230.0
    assert np.median(played.canary_n) == pytest.approx(np.median(played.rolled_back_s) * 5.0, rel=0.15)


def test_the_window_fault_is_caught_within_seconds() -> None:
    for mirror in (0.0, 1.0):
        sound = replace(SHORT, mirror=mirror)
        fault = replace(
            sound, canary=ArmModel(low=0.46), pairs=PairModel(low=0.38, low_noise=0.02, flips=0.25)
        )
        played = play(Scenario(sound, fault), R, seed=5)
        assert played.rolled_back == 1.0
        assert np.median(played.rolled_back_s) <= 24.0


@pytest.mark.parametrize(("flips", "pairs", "seconds"), [(0.25, 30, 1.0), (0.10, 150, 2.0), (0.06, 630, 8.0)])
def test_flipped_labels_are_caught_by_pairs(flips: float, pairs: int, seconds: float) -> None:
    sound = Traffic(seconds=seconds)
    played = play(Scenario(sound, replace(sound, pairs=PairModel(flips=flips))), R, seed=6)
    assert np.median(played.canary_n) == pytest.approx(pairs, rel=0.45)


def test_sticky_users_are_protected_by_pairs() -> None:
    # Users of the canary fail more often by themselves: no verdict. Then the canary fails where stable
    # does not: a roll back.
    others = replace(LONG, canary=ArmModel(error=0.02, low=0.2), pairs=NOISY)
    unfair = play(Scenario(others, seconds=1800.0, unit=Unit.KEY), R, seed=7)
    assert unfair.rolled_back == 0.0
    fault = replace(others, pairs=replace(NOISY, failed=0.04))
    found = play(Scenario(others, fault, unit=Unit.KEY), R, seed=7)
    assert found.rolled_back == 1.0
    assert np.median(found.rolled_back_s) <= 600.0


def test_a_fault_that_begins_late_is_caught_late_but_surely() -> None:
    fault = replace(LONG, canary=ArmModel(error=0.03))
    played = play(Scenario(LONG, fault, onset_s=2400.0), R, seed=8)
    assert played.rolled_back == 1.0
    assert (played.rolled_back_s > 0.0).all()
    assert np.median(played.rolled_back_s) <= 400.0


def test_a_step_is_proven_in_about_the_planned_time() -> None:
    played = play(Scenario(replace(LONG, mirror=0.0), seconds=1000.0), R, seed=9)
    # 1,953 requests at 5 a second: 391 s.
    assert 300.0 <= np.median(played.proven_s) <= 560.0
