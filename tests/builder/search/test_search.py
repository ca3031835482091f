"""How a search ends: found, exhausted, out of budget, or with too little data to accept anything."""

import pytest

from builder.builds.work import Made
from builder.search.rules import Family
from builder.search.search import Bench, Search
from builder.steps.step import Refused
from registry.contract.engines import (
    BenchReport,
    BisectionReport,
    EngineReport,
    Gate,
    GateOutcome,
    NodeError,
    OutputParity,
    ParityReport,
    ValidationReport,
)
from registry.contract.recipes import Int8Options, Precision, SearchOptions
from registry.contract.versions import DatasetRef

NODES = ("a", "b", "c", "d")
DIGEST = "sha256-" + "0" * 64


class Model:
    """A model of a few nodes with a known truth: which of them ruin it, and what each gains in speed.

    Scales per tensor ruin it in any case.
    """

    def __init__(
        self, bad: set[str], gain: float = 0.5, *, decisive: bool = True, nodes: tuple[str, ...] = NODES
    ) -> None:
        self.bad = bad
        self.nodes = nodes
        self.gain = gain
        self.decisive = decisive
        self.made: list[Int8Options] = []

    @property
    def bench(self) -> Bench:
        return Bench(self.make, self.prove, self.bisect)

    def make(self, options: Int8Options, name: str) -> Made:
        if options.calibrator == "entropy":
            raise Refused("entropy can't be had")
        self.made.append(options)
        left = tuple(node for node in self.nodes if node not in options.exclude_nodes)
        digest = f"{options.per_channel} {left}"
        return Made(digest, left, options.exclude_nodes, base=DIGEST, onnx=digest)

    def prove(self, made: Made, name: str) -> EngineReport:
        off = bool(self.bad & set(made.quantised)) or made.digest.startswith("False")
        speed = 1 + self.gain * len(made.quantised) / len(self.nodes)
        gates = [
            Gate(
                name="parity", outcome=GateOutcome.FAILED if off else GateOutcome.PASSED, reason=f"off: {off}"
            ),
            Gate(
                name="speed",
                outcome=GateOutcome.PASSED if speed >= 1.2 else GateOutcome.FAILED,
                reason=f"x{speed}",
            ),
        ]
        if not self.decisive:
            gates.append(Gate(name="validation", outcome=GateOutcome.INSUFFICIENT, reason="too few rows"))
        return EngineReport(
            precision=Precision.INT8_STATIC,
            target="ort.cpu",
            digest=DIGEST,
            size=1,
            memory_bytes=1,
            key=DIGEST,
            tools={},
            quantised=made.quantised,
            excluded=made.excluded,
            gates=tuple(gates),
            parity=_parity(5.0 if off else 40.0),
            validation=None if self.decisive else _validation(),
            bench=_bench(speed),
        )

    def bisect(self, made: Made, name: str) -> BisectionReport:
        ranking = sorted(
            (
                NodeError(node=one, operator="Conv", error=float(one in self.bad), effect=1, sqnr_db=1)
                for one in made.quantised
            ),
            key=lambda one: -one.error,
        )
        return BisectionReport(
            node=ranking[0].node,
            operator="Conv",
            confirmed=True,
            local_sqnr_db=1,
            cut_sqnr_db=1,
            model=DIGEST,
            inputs=DIGEST,
            ranking=tuple(ranking),
            says=f"{ranking[0].node} explains it",
        )


def _parity(decibels: float) -> ParityReport:
    output = OutputParity(
        output="y", cosine=0.9, sqnr_db=decibels, max_abs=1, max_rel=1, finite=True, constant=False
    )
    return ParityReport(rows=4, shapes=(), outputs=(output,), batch_invariant=True, batch_max_abs=0)


def _bench(speed: float) -> BenchReport:
    return BenchReport(
        provider="CPUExecutionProvider",
        threads=1,
        points=(),
        source_points=(),
        speed_ratio=speed,
        size_bytes=1,
        source_size_bytes=1,
        size_ratio=1,
        load_ms={},
        memory_bytes=1,
    )


def _validation() -> ValidationReport:
    return ValidationReport(
        dataset=DatasetRef(name="few", version=1),
        form="raw",
        rows=9,
        labelled=True,
        source_metric=1,
        engine_metric=1,
        n01=0,
        n10=0,
        flips=0,
        flip_upper=0.3,
        loss_upper=0.3,
        outcome="insufficient",
    )


FAMILIES = (Family("minmax", False, ()), Family("entropy", True, ()), Family("minmax", True, ()))


def searched(model: Model, candidates: int = 50, seconds: float = 600) -> EngineReport:
    budget = SearchOptions(candidates=candidates, seconds=seconds)
    return Search(model.bench, Int8Options(per_channel=False), budget, FAMILIES).run()


def test_the_first_that_passes_ends_it() -> None:
    report = searched(Model(bad=set()))
    assert report.search is not None
    assert (report.search.ended, report.search.chosen, report.search.tried) == ("found", "2", 2)
    assert [one.refused_by for one in report.search.candidates] == [("parity",), ()]
    assert report.excluded == ()
    assert report.bisection is not None


def test_the_worst_are_excluded_until_it_holds() -> None:
    report = searched(Model(bad={"b"}))
    assert report.search is not None and report.search.ended == "found"
    assert report.excluded == ("b",)
    assert report.quantised == ("a", "c", "d")
    assert "without b" in report.search.says


def test_when_nothing_passes_the_recipe_s_own_is_reported_with_all_that_was_tried() -> None:
    report = searched(Model(bad=set(NODES)))
    assert report.search is not None
    assert (report.search.ended, report.search.chosen) == ("exhausted", None)
    assert "FP32 and FP16 stay" in report.search.says
    assert report.quantised == NODES and report.excluded == ()
    assert report.search.tried == len(report.search.candidates) > len(FAMILIES)


def test_a_model_that_is_too_slow_is_not_made_slower() -> None:
    model = Model(bad=set(), gain=0.1)
    report = searched(model)
    assert report.search is not None and report.search.ended == "exhausted"
    assert all(not one.excluded for one in report.search.candidates if one.refused_by == ("speed",))


def test_what_lies_between_too_few_and_too_many_is_tried() -> None:
    """Without four of ten it is off, without six too slow, and without five it holds."""
    nodes = tuple("abcdefghij")
    report = searched(Model(bad=set("abcde"), gain=0.45, nodes=nodes))
    assert report.search is not None and report.search.ended == "found"
    assert report.excluded == tuple("abcde")
    assert report.search.candidates[-2].refused_by == ("speed",)


def test_excluding_ends_where_what_is_left_is_too_slow() -> None:
    """Without two of four it is right, and gains too little."""
    report = searched(Model(bad={"a", "b"}, gain=0.3))
    assert report.search is not None and report.search.chosen is None
    excluding = [one.refused_by for one in report.search.candidates if one.excluded]
    assert excluding[-1] == ("speed",)


@pytest.mark.parametrize(("candidates", "seconds", "tried"), [(2, 600.0, 2), (50, 1e-9, 1)])
def test_the_budget_holds_and_the_recipe_s_own_is_always_tried(
    candidates: int, seconds: float, tried: int
) -> None:
    report = searched(Model(bad=set(NODES)), candidates, seconds)
    assert report.search is not None
    assert (report.search.ended, report.search.tried) == ("budget", tried)
    assert "search.candidates" in report.search.says


def test_too_few_rows_end_it_at_once() -> None:
    report = searched(Model(bad=set(), decisive=False))
    assert report.search is not None
    assert (report.search.ended, report.search.tried) == ("insufficient", 1)


def test_equal_engines_are_proven_once() -> None:
    model = Model(bad=set(NODES))
    families = (Family("minmax", True, ()), Family("mse", True, ()), Family("percentile", True, ()))
    report = Search(model.bench, Int8Options(), SearchOptions(), families).run()
    assert report.search is not None
    assert len({one.excluded for one in report.search.candidates}) == report.search.tried


def test_none_that_can_be_made_is_refused_with_the_reason() -> None:
    with pytest.raises(Refused, match="entropy can't be had"):
        Search(Model(set()).bench, Int8Options(), SearchOptions(), (Family("entropy", True, ()),)).run()
