"""One engine by its recipe: made and proven once, taken apart when it's off, and searched for where the
recipe says so."""

from builder.builds.work import Made, Work, engine_name, saturates
from builder.quantisation import schemes
from builder.search import rules
from builder.search.search import Bench, Search
from builder.steps.step import Refused
from registry.contract.engines import EngineReport
from registry.contract.identity import TargetName
from registry.contract.recipes import Precision

SEARCHED = (Precision.INT8_STATIC, Precision.INT8_DYNAMIC)
# What a search for dynamic INT8 tries besides its default: embeddings and recurrent layers stay FP32.
DYNAMIC_NARROW = ("MatMul",)


class Attempts:
    def __init__(self, bench: Bench, work: Work, precision: Precision, target: TargetName) -> None:
        self._bench = bench
        self._recipe = work.recipe
        self._precision = precision
        self._name = engine_name(precision, target)

    def report(self) -> EngineReport:
        """Raises Refused when there can be no such engine."""
        asked, budget = self._recipe.int8, self._recipe.search
        if budget is not None and self._precision in SEARCHED:
            static = self._precision is Precision.INT8_STATIC
            families = rules.families(
                asked,
                (),
                schemes.WIDE if static else DYNAMIC_NARROW,
                static=static,
                saturates=saturates(),
            )
            return Search(self._labelled(), asked, budget, families).run()
        made = self._bench.make(asked, self._name)
        return self._explained(made, self._bench.prove(made, self._name))

    def _explained(self, made: Made, report: EngineReport) -> EngineReport:
        if made.base is None or "quality" not in rules.fails_of(report):
            return report
        try:
            return report.model_copy(update={"bisection": self._bench.bisect(made, self._name)})
        except Refused:
            return report  # its tensors can't be told apart: the gates' reasons stand alone

    def _labelled(self) -> Bench:
        """Steps of candidate 3 are those of engine `int8-static/ort.cpu#3`."""
        return Bench(
            make=lambda options, name: self._bench.make(options, f"{self._name}#{name}"),
            prove=lambda made, name: self._bench.prove(made, f"{self._name}#{name}"),
            bisect=lambda made, name: self._bench.bisect(made, f"{self._name}#{name}"),
        )
