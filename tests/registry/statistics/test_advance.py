"""Proofs of non-inferiority."""

from __future__ import annotations

import numpy as np
import pytest

from registry.statistics import advance
from registry.statistics.advance import Proof, Scale

R = 2000
LINE = np.log(20.0)


def scale(replicates: int, phi: float = 1.0, active: bool = True) -> Scale:
    return Scale(np.full(replicates, phi), np.full(replicates, active))


def run(rate: float, bound: float, expected: float, looks: int, each: int = 50) -> tuple[np.ndarray, Proof]:
    """First look at which the proof stood (looks when never), and the last state."""
    rng = np.random.default_rng(1)
    proof = advance.begin(R, 1)
    first = np.full(R, looks)
    for t in range(looks):
        x = rng.binomial(each, rate, (R, 1)).astype(float)
        n, edge, guess = np.full((R, 1), float(each)), np.full((R, 1), bound), np.full((R, 1), expected)
        proof = advance.look(proof, n, x, edge, guess, scale(R))
        first = np.where(proof.log_e[:, 0] >= LINE, np.minimum(first, t), first)
    return first, proof


def test_without_any_error_six_hundred_requests_prove_half_a_percent() -> None:
    proof = advance.begin(1, 1)
    one, zero = np.ones((1, 1)), np.zeros((1, 1))
    while proof.log_e[0, 0] < LINE:
        proof = advance.look(proof, one, zero, 0.005 * one, zero, scale(1))
    # (1 − .005)^n ≤ 1/20 from n = 598; hedging against one later error costs a handful.
    assert 598 <= proof.n[0, 0] <= 606


def test_a_canary_at_the_bound_is_proven_in_at_most_five_percent() -> None:
    first, _ = run(rate=0.01, bound=0.01, expected=0.005, looks=300)
    assert (first < 300).mean() <= 0.05 + 3 * np.sqrt(0.05 * 0.95 / R)


def test_a_canary_as_good_as_stable_is_proven_in_about_the_planned_time() -> None:
    first, _ = run(rate=0.005, bound=0.01, expected=0.005, looks=200)
    assert 1500 <= np.median(first) * 50 <= 2500


def test_the_promised_growth_is_the_growth() -> None:
    _, proof = run(rate=0.005, bound=0.01, expected=0.005, looks=60)
    assert proof.log_e.mean() / proof.n[0, 0] == pytest.approx(proof.growth.mean(), rel=0.2)


def test_a_worse_canary_promises_nothing() -> None:
    _, proof = run(rate=0.03, bound=0.01, expected=0.005, looks=60)
    assert proof.growth.max() == 0.0
    assert (proof.log_e < 0.0).all()


def test_nothing_is_proven_while_stable_is_unknown() -> None:
    one = np.ones((1, 1))
    proof = advance.look(advance.begin(1, 1), 500.0 * one, 0.0 * one, one, 0.5 * one, scale(1, active=False))
    assert (proof.log_e[0, 0], proof.n[0, 0]) == (0.0, 0.0)


def test_clumped_traffic_needs_as_many_times_more() -> None:
    one = np.ones((1, 1))
    plain = advance.look(advance.begin(1, 1), 500.0 * one, 1.0 * one, 0.01 * one, 0.005 * one, scale(1))
    clumped = advance.look(
        advance.begin(1, 1), 500.0 * one, 1.0 * one, 0.01 * one, 0.005 * one, scale(1, phi=4.0)
    )
    assert clumped.log_e == pytest.approx(plain.log_e / 4.0)


def test_net_failures_at_the_slack_are_proven_in_at_most_five_percent() -> None:
    rng = np.random.default_rng(2)
    proof, ever = advance.begin(R, 1), np.zeros(R, dtype=bool)
    for _ in range(200):
        parts = rng.multinomial(20, [0.03, 0.01, 0.96], (R, 1)).astype(float)
        n, slack = np.full((R, 1), 20.0), np.full((R, 1), 0.02)
        proof = advance.look_net(proof, n, parts[..., 0], parts[..., 1], slack, scale(R))
        ever |= proof.log_e[:, 0] >= LINE
    assert ever.mean() <= 0.05 + 3 * np.sqrt(0.05 * 0.95 / R)


def test_pairs_without_net_failures_prove() -> None:
    rng = np.random.default_rng(3)
    proof = advance.begin(R, 1)
    for _ in range(100):
        parts = rng.multinomial(20, [0.01, 0.01, 0.98], (R, 1)).astype(float)
        n, slack = np.full((R, 1), 20.0), np.full((R, 1), 0.02)
        proof = advance.look_net(proof, n, parts[..., 0], parts[..., 1], slack, scale(R))
    assert (proof.log_e[:, 0] >= LINE).mean() > 0.9
    assert proof.growth.min() > 0.0
