"""What the leading test saw, in one sentence for people: rates with their counts."""

from __future__ import annotations

import dataclasses

import numpy as np

from registry.statistics.arrays import Floats
from registry.statistics.evidence import ClassEvidence, Evidence
from registry.statistics.paired import PairedTest
from registry.statistics.rates import RateTest
from registry.statistics.trial import Family, Test, Trial


def percent(rate: float) -> str:
    """A rate as people read it: 0.52 %, 12 %."""
    return f"{rate * 100:.3g} %"


def count(value: float) -> str:
    """A number with thousands apart: 12,345."""
    return f"{value:,.0f}"


def seconds(value: float) -> str:
    """A span: 40 s, 12 min, 3.5 h."""
    if value < 120.0:
        return f"{value:.0f} s"
    if value < 7200.0:
        return f"{value / 60:.0f} min"
    return f"{value / 3600:.1f} h"


def describe(evidence: Evidence, trial: Trial, test: Test, item: str) -> str:
    """What `test` saw of `item`, without a verdict (replicate 0)."""
    layout = trial.layout
    match test:
        case Test.RATE:
            return f"failed: {_rates(evidence.errors, 0, 'requests')}"
        case Test.KINDS:
            return f"{item}: {_rates(evidence.kinds, layout.error_kinds.index(item), 'requests')}"
        case Test.SLOW:
            runs = _rates(_pooled(evidence.slow), 0, "runs")
            return f"slower than stable's earlier P99 at equal batch size: {runs}"
        case Test.TAILS:
            return f"{item}: {_rates(evidence.tails, layout.tails.index(item), 'answers')}"
        case Test.PAIRED_FAILED:
            return f"on the same input {_net(evidence.paired_failed, 0, 'failed')}"
        case Test.PAIRED_TAILS:
            return (
                f"on the same input {_net(evidence.paired_tails, layout.tails.index(item), f'gave {item}')}"
            )
        case Test.FLIPS:
            at = [mix.name for mix in layout.class_mixes].index(item)
            return _flips(evidence.classes[at].flips, trial.flip_limit(at))
        case Test.SHARES | Test.FLOW:
            at, state, label = _label(evidence, trial, item)
            if test is Test.SHARES:
                return f"{item}: {_rates(state.up, label, 'answers')}"
            towards = state.inflow if item.endswith("up") else state.outflow
            return f"on the same input {_net(towards, label, f'moved {item}')}"


def family_size(evidence: Evidence, family: Family) -> tuple[int, int]:
    """Canary's requests (or runs, answers) and pairs that the family has looked at (replicate 0)."""
    match family:
        case Family.ERRORS:
            rate, pairs = _most(evidence.errors.canary_n), _most(evidence.paired_failed.n)
        case Family.SLOW:
            rate, pairs = float(evidence.slow.canary_n[0].sum()), 0.0
        case Family.SCORES:
            rate, pairs = _most(evidence.tails.canary_n), _most(evidence.paired_tails.n)
        case Family.CLASSES:
            rate = max((_most(c.up.canary_n) for c in evidence.classes), default=0.0)
            pairs = max((_most(c.flips.n) for c in evidence.classes), default=0.0)
    return int(rate), int(pairs)


def _most(n: Floats) -> float:
    return float(n[0].max(initial=0.0))


def _pooled(test: RateTest) -> RateTest:
    """The test with its items (batch-size buckets) added up."""

    def total(v: Floats) -> Floats:
        return np.asarray(v.sum(axis=1, keepdims=True))

    return dataclasses.replace(
        test,
        stable_n=total(test.stable_n),
        stable_x=total(test.stable_x),
        canary_n=total(test.canary_n),
        canary_x=total(test.canary_x),
    )


def _rates(test: RateTest, item: int, what: str) -> str:
    x_c, n_c = float(test.canary_x[0, item]), float(test.canary_n[0, item])
    x_s, n_s = float(test.stable_x[0, item]), float(test.stable_n[0, item])
    return (
        f"{percent(x_c / max(n_c, 1.0))} of the canary's {what} ({count(x_c)} of {count(n_c)}) "
        f"against stable's {percent(x_s / max(n_s, 1.0))} ({count(x_s)} of {count(n_s)})"
    )


def _net(test: PairedTest, item: int, what: str) -> str:
    n, plus, minus = (count(float(v[0, item])) for v in (test.n, test.plus, test.minus))
    return f"the canary alone {what} {plus} times and stable alone {minus} times in {n} pairs"


def _flips(test: PairedTest, limit: float) -> str:
    n, flips = float(test.n[0, 0]), float(test.plus[0, 0])
    return (
        f"{percent(flips / max(n, 1.0))} of the labels flip on the same input "
        f"({count(flips)} of {count(n)} pairs) where {percent(limit)} is tolerated"
    )


def _label(evidence: Evidence, trial: Trial, item: str) -> tuple[int, ClassEvidence, int]:
    """Position of the mix, its evidence, position of the label, of an item named "mix=label up"."""
    for at, mix in enumerate(trial.layout.class_mixes):
        for label, name in enumerate(mix.labels):
            if item.rpartition(" ")[0] == f"{mix.name}={name}":
                return at, evidence.classes[at], label
    raise ValueError(f"{item!r} is no label of this trial")
