"""What a search tries next. Pure: the same findings lead to the same candidates."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

from registry.contract.engines import CandidateReport, EngineReport, GateOutcome, NodeError
from registry.contract.recipes import Calibrator, Int8Options

CALIBRATORS: tuple[Calibrator, ...] = ("minmax", "entropy", "percentile", "mse")
QUALITY = ("golden", "parity", "validation")
Failing = Literal["quality", "speed"]


@dataclass(frozen=True, slots=True)
class Family:
    """Candidates that differ in what they exclude only."""

    calibrator: Calibrator
    per_channel: bool
    operators: tuple[str, ...]
    reduce_range: bool = False


@dataclass(frozen=True, slots=True)
class Candidate:
    """`excluded`: nodes beyond those that the recipe excludes itself."""

    family: Family
    excluded: tuple[str, ...] = ()

    def options(self, asked: Int8Options) -> Int8Options:
        return asked.model_copy(
            update={
                "calibrator": self.family.calibrator,
                "per_channel": self.family.per_channel,
                "operators": self.family.operators,
                "reduce_range": self.family.reduce_range,
                "exclude_nodes": (*asked.exclude_nodes, *self.excluded),
            }
        )


@dataclass(frozen=True, slots=True)
class Tried:
    """`fails`: the kinds of gates that were missed; empty: it passed. `quality`: lowest SQNR in decibels."""

    candidate: Candidate
    fails: frozenset[Failing]
    quality: float


def families(
    asked: Int8Options, default: Sequence[str], wide: Sequence[str], *, static: bool, saturates: bool
) -> list[Family]:
    """The recipe's own first; then one change at a time, the most promising first.

    Scales per channel cost nothing. The default operators are those that keep their answers; `wide`, what is
    fastest. Where sums of products saturate, weights of 7 bits keep more of an answer than those of 8. Other
    calibrators (of static ranges only) come last: they move an answer less than the others.
    """
    found = [Family(asked.calibrator, asked.per_channel, asked.operators, asked.reduce_range)]
    sets = list(dict.fromkeys([tuple(default), tuple(wide), asked.operators]))
    narrow = asked.reduce_range or saturates
    found += [Family(asked.calibrator, True, operators, narrow) for operators in sets]
    if static:
        found += [
            Family(calibrator, True, operators, narrow) for operators in sets for calibrator in CALIBRATORS
        ]
    return list(dict.fromkeys(found))


def rounds(families: Sequence[Family]) -> list[list[Family]]:
    """Those of the recipe's own calibrator, then the others. Each round excludes before the next begins:
    leaving out what is worst moves an answer further than other ranges do."""
    if not families:
        return []
    own = families[0].calibrator
    first = [family for family in families if family.calibrator == own]
    return [first, [family for family in families if family.calibrator != own]]


def dearest(ranking: Sequence[NodeError]) -> tuple[str, ...]:
    """Operators by what they harm for what they save, dearest first: a small layer near the input may cost
    half of the quality and no time at all, and leaving out a large one gives back the speed that it is all
    for."""
    return tuple(one.node for one in sorted(ranking, key=lambda one: -one.effect / max(1, one.operations)))


def counts(ranked: int, chosen: int) -> Iterator[int]:
    """How many of the ranked to exclude: 1, 2, 3, 4, 6, 8, 12 …, so that at least one of `chosen` stays."""
    count, between = 1, 2
    while count < chosen and count <= ranked:
        yield count
        count, between = between, max(3, 2 * count)


def order(tried: Sequence[Tried]) -> list[Family]:
    """Families worth excluding from: what missed quality alone, best first. A family that was too slow as a
    whole only gets slower."""
    worth = [one for one in tried if one.fails == {"quality"} and not one.candidate.excluded]
    worth.sort(key=lambda one: -one.quality)
    slow = [one for one in tried if one.fails == {"quality", "speed"} and not one.candidate.excluded]
    return [one.candidate.family for one in (*worth, *sorted(slow, key=lambda one: -one.quality))]


def fails_of(report: EngineReport) -> frozenset[Failing]:
    """Of a release's point of view: too little data counts as missed."""
    against = (GateOutcome.FAILED, GateOutcome.INSUFFICIENT)
    missed = [gate.name for gate in report.gates if gate.outcome in against]
    kinds: set[Failing] = {"quality" if name in QUALITY else "speed" for name in missed}
    return frozenset(kinds)


def undecidable(report: EngineReport) -> bool:
    """True when the validation set can accept no engine at all: not even one without a single change."""
    found = report.validation
    return found is not None and found.outcome == "insufficient" and found.flips == 0


def quality_of(report: EngineReport) -> float:
    """Lowest SQNR of any output in decibels; what gives constant or non-finite answers is worth nothing."""
    if report.parity is None:
        return -999.0
    noisy = [output.sqnr_db for output in report.parity.outputs if output.sqnr_db is not None]
    broken = any(output.constant or not output.finite for output in report.parity.outputs)
    return -999.0 if broken else min(noisy, default=999.0)


def described(name: str, candidate: Candidate, report: EngineReport) -> CandidateReport:
    against = (GateOutcome.FAILED, GateOutcome.INSUFFICIENT)
    missed = [gate for gate in report.gates if gate.outcome in against]
    outputs = report.parity.outputs if report.parity else ()
    return CandidateReport(
        name=name,
        calibrator=report.calibration.calibrator if report.calibration else None,
        per_channel=candidate.family.per_channel,
        reduce_range=candidate.family.reduce_range,
        operators=candidate.family.operators,
        excluded=report.excluded,
        refused_by=tuple(gate.name for gate in missed),
        reason=missed[0].reason if missed else "passes every gate",
        cosine=min((output.cosine for output in outputs), default=None),
        sqnr_db=quality_of(report) if outputs else None,
        metric=report.validation.engine_metric if report.validation else None,
        loss_upper=report.validation.loss_upper if report.validation else None,
        speed_ratio=report.bench.speed_ratio if report.bench else None,
        size_ratio=report.bench.size_ratio if report.bench else None,
    )


def frontier(candidates: Sequence[CandidateReport]) -> tuple[CandidateReport, ...]:
    """Marks those that no other beats in one of quality, speed and size without losing in another."""
    points = [_point(one) for one in candidates]
    return tuple(
        one.model_copy(update={"frontier": point is not None and not _beaten(point, points)})
        for one, point in zip(candidates, points, strict=True)
    )


def _point(one: CandidateReport) -> tuple[float, float, float] | None:
    if one.sqnr_db is None or one.speed_ratio is None or one.size_ratio is None:
        return None
    return one.sqnr_db, one.speed_ratio, -one.size_ratio


def _beaten(point: tuple[float, ...], others: Sequence[tuple[float, ...] | None]) -> bool:
    return any(
        other is not None
        and other != point
        and all(theirs >= ours for theirs, ours in zip(other, point, strict=True))
        for other in others
    )
