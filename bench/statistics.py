"""The judge's tables in full: what it must never do, and how fast it catches faults.

100 requests/s, 5 % canary, routing unit request, looks every 10 s, R = 600 replicates of 24 h. About half an
hour on one core; `--replicates` and `--hours` shorten it. Every figure is simulated from seeded generators
through the same code that judges releases.
"""

from __future__ import annotations

import argparse
import math
import time
from dataclasses import asdict, dataclass, replace
from typing import Literal

import numpy as np

from registry.statistics import drift, simulate
from registry.statistics.planner import requests_to_prove
from registry.statistics.scenario import Played, Scenario, play
from registry.statistics.simulate import ArmModel, PairModel, Traffic
from registry.statistics.tolerances import Tolerances

BASE = Traffic(seconds=10.0)
UNMIRRORED = replace(BASE, mirror=0.0)
INT8 = ArmModel(slow=0.008, low=0.115, mix=(0.395, 0.254, 0.152, 0.099, 0.06, 0.04))
NOISY = PairModel(failed=0.005, failed_noise=0.005)
WINDOW = PairModel(low=0.38, low_noise=0.02, flips=0.25)


@dataclass(frozen=True)
class Row:
    """One measured figure beside what is promised. low, high: between which it must lie."""

    name: str
    unit: str
    promised: str
    measured: float
    low: float
    high: float
    seconds: float

    @property
    def ok(self) -> bool:
        return self.low <= self.measured <= self.high


def run(
    output: Literal["json", "table"] = "table", replicates: int = 600, hours: float = 24.0, seed: int = 1
) -> dict[str, object]:
    """Measures and returns the rows, and whether each is within its bounds; prints them as a `table`."""
    rows = [
        *_never(replicates, hours, seed),
        *_caught(replicates, seed),
        *_flipped(replicates, seed),
        *(_proven(share, replicates, seed) for share in (0.05, 0.25, 0.5)),
        *_naive(replicates, seed),
    ]
    if output == "table":
        for row in rows:
            mark = "ok " if row.ok else "OFF"
            print(f"{mark} {row.name:<58} {row.measured:>9.4g} {row.unit:<9} promised {row.promised}")
    return {
        "replicates": replicates,
        "hours": hours,
        "seed": seed,
        "ok": all(row.ok for row in rows),
        "rows": [{**asdict(row), "ok": row.ok} for row in rows],
    }


def _never(replicates: int, hours: float, seed: int) -> list[Row]:
    """Releases that are sound."""
    span = hours * 3600.0
    # Three standard errors on top of a promise, for as many replicates as there are.
    room = 3.0 * math.sqrt(0.0125 / replicates)
    honest = replace(BASE, canary=INT8, pairs=replace(NOISY, low=0.02, low_noise=0.005))
    bursty = replace(BASE, burst=5.0)
    plans = (
        ("A/A", Scenario(BASE, seconds=span, same_engine=True), 0.003, 0.0125),
        ("honest INT8", Scenario(honest, seconds=span), 0.0, 0.0),
        ("bursts of 5 identical requests, with dispersion", Scenario(bursty, seconds=span), 0.01, 0.0125),
    )
    rows: list[Row] = []
    for name, scenario, back, frozen in plans:
        played, took = _timed(scenario, replicates, seed)
        slack = room if back else 0.0
        for what, most, part in (
            ("rolled back", back, played.rolled_back),
            ("frozen", frozen, played.frozen),
        ):
            rows.append(Row(f"{name}: {what}", "of runs", f"≤ {most}", part, 0.0, most + slack, took))
    undispersed = Scenario(bursty, bursty, seconds=min(span, 7200.0), dispersed=False)
    played, took = _timed(undispersed, replicates, seed)
    name = "bursts, without dispersion: rolled back"
    return [*rows, Row(name, "of runs", "every time", played.rolled_back, 0.98, 1.0, took)]


def _caught(replicates: int, seed: int) -> list[Row]:
    """Faults, by the median of the time until they are rolled back."""
    errors, low = ArmModel(error=0.02), ArmModel(low=0.46)
    alone, pairs = replace(UNMIRRORED, seconds=2.0), replace(BASE, seconds=2.0)
    noisy = replace(BASE, pairs=NOISY)
    noisy_fault = replace(noisy, canary=errors, pairs=replace(NOISY, failed=0.02))
    unmirrored_fault = replace(UNMIRRORED, canary=errors)
    late = replace(BASE, canary=ArmModel(error=0.03))
    plans = (
        (
            "errors 0.5 → 2 %, rates alone",
            Scenario(UNMIRRORED, unmirrored_fault),
            170,
            130,
            210,
        ),
        ("errors 0.5 → 2 %, with pairs", Scenario(noisy, noisy_fault), 170, 130, 230),
        ("window fault, rates alone", Scenario(alone, replace(alone, canary=low)), 24, 0, 24),
        ("window fault, with pairs", Scenario(pairs, replace(pairs, canary=low, pairs=WINDOW)), 24, 0, 24),
        ("errors 0.5 → 3 % after 2 h", Scenario(BASE, late, onset_s=7200.0, seconds=14400.0), 300, 0, 400),
    )
    rows: list[Row] = []
    for name, scenario, promised, least, most in plans:
        played, took = _timed(scenario, replicates, seed)
        median = float(np.median(played.rolled_back_s))
        rows.append(Row(name, "s", f"about {promised}", median, least, most, took))
    return rows


def _flipped(replicates: int, seed: int) -> list[Row]:
    """Flipped labels, by the median number of pairs."""
    sound = replace(BASE, seconds=1.0)
    rows: list[Row] = []
    for flips, promised, most in ((0.25, 30, 45), (0.10, 150, 215), (0.06, 630, 900)):
        fault = replace(sound, pairs=PairModel(flips=flips))
        played, took = _timed(Scenario(sound, fault), replicates, seed)
        name, median = f"{flips:.0%} of labels flip, limit 3.1 %", float(np.median(played.canary_n))
        rows.append(Row(name, "pairs", f"about {promised}", median, 0, most, took))
    return rows


def _proven(share: float, replicates: int, seed: int) -> Row:
    """How long a step takes to be proven."""
    planned = requests_to_prove(0.005, Tolerances().prove) / (100.0 * share)
    sound = replace(UNMIRRORED, share=share, seconds=max(1.0, planned / 50.0))
    played, took = _timed(Scenario(sound, seconds=planned * 6.0), replicates, seed)
    median = float(np.median(played.proven_s))
    name = f"a step at {share:.0%} is proven after"
    return Row(name, "s", f"about {planned:.0f}", median, planned * 0.6, planned * 1.4, took)


def _naive(replicates: int, seed: int) -> list[Row]:
    """What usual rules do with the same sound traffic within two hours of looks."""
    rng = np.random.default_rng(seed)
    psi, doubled = np.zeros(replicates, dtype=bool), np.zeros(replicates, dtype=bool)
    for _ in range(720):
        batch = simulate.batch(UNMIRRORED, replicates, rng)
        canary, stable = batch.canary.mixes[0][:, 0], batch.stable.mixes[0][:, 0]
        psi |= np.array([drift.psi(*mixes) > 0.2 for mixes in zip(canary, stable, strict=True)])
        rates = [arm.errors[:, 0, 0] / np.maximum(arm.n[:, 0], 1.0) for arm in (batch.canary, batch.stable)]
        doubled |= rates[0] > 2.0 * rates[1]
    fired = (("PSI > 0.2", psi), ("twice the errors", doubled))
    return [
        Row(
            f"sound, a rule of {rule} at each look: fires",
            "of runs",
            "0.5 to 1",
            float(hit.mean()),
            0.5,
            1.0,
            0.0,
        )
        for rule, hit in fired
    ]


def _timed(scenario: Scenario, replicates: int, seed: int) -> tuple[Played, float]:
    began = time.perf_counter()
    return play(scenario, replicates, seed), time.perf_counter() - began


def main() -> None:
    """`python -m bench.statistics [-o json] [--replicates N] [--hours H] [--seed S]`"""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("-o", "--output", choices=("json", "table"), default="table")
    parser.add_argument("--replicates", type=int, default=600)
    parser.add_argument("--hours", type=float, default=24.0)
    parser.add_argument("--seed", type=int, default=1)
    given = parser.parse_args()
    if not run(given.output, given.replicates, given.hours, given.seed):
        raise SystemExit(1)


if __name__ == "__main__":
    main()
