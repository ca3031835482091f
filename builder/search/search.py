"""Search instead of failing: tries candidates until one passes every gate, or the budget is spent."""

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal

from builder.builds.work import Made
from builder.search import rules
from builder.search.rules import Candidate, Family, Tried
from builder.steps.step import Refused
from registry.contract.engines import BisectionReport, CandidateReport, EngineReport, SearchReport
from registry.contract.recipes import Int8Options, SearchOptions

Ended = Literal["found", "exhausted", "budget", "insufficient"]
RANKED = 16


@dataclass(frozen=True, slots=True)
class Bench:
    """How a candidate is made, proven and taken apart. Each raises Refused; labels tell them apart."""

    make: Callable[[Int8Options, str], Made]
    prove: Callable[[Made, str], EngineReport]
    bisect: Callable[[Made, str], BisectionReport]


@dataclass(frozen=True, slots=True)
class _Attempt:
    made: Made
    report: EngineReport


class _Over(Exception):
    """No more is tried."""

    def __init__(self, ended: Ended) -> None:
        super().__init__(ended)
        self.ended: Ended = ended


class Search:
    """Of one engine. `run` never raises for a candidate that can't be made: it is one that failed."""

    def __init__(self, bench: Bench, asked: Int8Options, budget: SearchOptions, families: Sequence[Family]):
        self._bench = bench
        self._asked = asked
        self._budget = budget
        self._families = families
        self._began = time.monotonic()
        self._tried: list[Tried] = []
        self._told: list[CandidateReport] = []
        self._attempts: dict[Candidate, _Attempt] = {}
        self._first: BisectionReport | None = None

    def run(self) -> EngineReport:
        """The first candidate that passes; otherwise the recipe's own, refused, with all that was tried.
        Raises Refused when not even one could be made."""
        ended: Ended = "exhausted"
        try:
            for families in rules.rounds(self._families):
                before = len(self._tried)
                for family in families:
                    self._try(Candidate(family))
                for family in rules.order(self._tried[before:]):
                    self._exclude(family)
        except _Over as over:
            ended = over.ended
        if not self._attempts:
            raise Refused(self._told[0].reason)
        chosen = self._tried[-1].candidate if ended == "found" else next(iter(self._attempts))
        return self._attempts[chosen].report.model_copy(
            update={"search": self._report(ended), "bisection": self._first}
        )

    def _try(self, candidate: Candidate) -> None:
        name = str(len(self._told) + 1)
        spent = time.monotonic() - self._began > self._budget.seconds
        if len(self._told) >= self._budget.candidates or (spent and self._told):
            raise _Over("budget")
        try:
            made = self._bench.make(candidate.options(self._asked), name)
            if any(made.digest == attempt.made.digest for attempt in self._attempts.values()):
                return  # the same engine by another way
            report = self._bench.prove(made, name)
        except Refused as refused:
            self._told.append(_impossible(name, candidate, str(refused)))
            return
        tried = Tried(candidate, rules.fails_of(report), rules.quality_of(report))
        self._tried.append(tried)
        self._attempts[candidate] = _Attempt(made, report)
        self._told.append(rules.described(name, candidate, report))
        if not tried.fails:
            raise _Over("found")
        if rules.undecidable(report):
            raise _Over("insufficient")
        if "quality" in tried.fails and self._first is None:
            self._first = self._taken_apart(candidate)

    def _exclude(self, family: Family) -> None:
        """Less and less of a family in INT8, the worst by themselves first, until it gets too slow."""
        candidate = Candidate(family)
        found = self._taken_apart(candidate)
        if found is None:
            return
        self._first = self._first or found
        nodes = rules.dearest(found.ranking)
        few = 0
        for many in rules.counts(len(nodes), len(self._attempts[candidate].report.quantised)):
            if self._slow(Candidate(family, nodes[:many])):
                self._narrow(family, nodes, few, many)
                return
            few = many

    def _narrow(self, family: Family, nodes: tuple[str, ...], few: int, many: int) -> None:
        """Without `few` of the nodes it is off, without `many` too slow: what lies between may be neither."""
        while many - few > 1:
            middle = (few + many) // 2
            if self._slow(Candidate(family, nodes[:middle])):
                many = middle
            else:
                few = middle

    def _slow(self, candidate: Candidate) -> bool:
        """Tries it. True when all that it lacks is speed."""
        self._try(candidate)
        return self._tried[-1].candidate == candidate and self._tried[-1].fails == {"speed"}

    def _taken_apart(self, candidate: Candidate) -> BisectionReport | None:
        try:
            return self._bench.bisect(self._attempts[candidate].made, f"{len(self._told)}")
        except Refused:
            return None

    def _report(self, ended: Ended) -> SearchReport:
        candidates = rules.frontier(self._told)
        chosen = candidates[-1] if ended == "found" else None
        return SearchReport(
            tried=len(candidates),
            chosen=chosen.name if chosen else None,
            ended=ended,
            candidates=candidates,
            ranking=self._first.ranking[:RANKED] if self._first else (),
            says=_sentence(candidates, chosen, ended),
        )


def _impossible(name: str, candidate: Candidate, reason: str) -> CandidateReport:
    family = candidate.family
    return CandidateReport(
        name=name,
        per_channel=family.per_channel,
        reduce_range=family.reduce_range,
        operators=family.operators,
        excluded=candidate.excluded,
        refused_by=("made",),
        reason=reason,
    )


def _sentence(candidates: Sequence[CandidateReport], chosen: CandidateReport | None, ended: Ended) -> str:
    head = f"{len(candidates)} tried"
    if chosen is not None:
        out = f", without {', '.join(chosen.excluded)}" if chosen.excluded else ""
        scales = "per channel" if chosen.per_channel else "per tensor"
        scales += ", weights in 7 bits" if chosen.reduce_range else ""
        ranges = f"{chosen.calibrator} ranges, " if chosen.calibrator else ""
        return f"{head}: number {chosen.name} passes ({ranges}scales {scales}{out})"
    why = {
        "budget": "the budget is spent: raise search.candidates or search.seconds",
        "insufficient": "the validation set is too small to accept any engine: add rows to it",
    }.get(ended, "there is nothing else to try")
    return f"{head}, none passes: {why}; FP32 and FP16 stay"
