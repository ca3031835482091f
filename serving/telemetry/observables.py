"""From answers to the bins of the route's observables, for the version of one arm.

Names and edges are the route's, source fields are the version's: an arm whose contract doesn't declare an
observable is simply not counted there.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from registry.contract.counters import CounterEdges, ObservableEdges
from registry.contract.versions import VersionContract
from serving.pipeline.answers import Answer
from serving.pipeline.observe import Binner, Observed, Observer


@dataclass(slots=True)
class Seen:
    """One observable in one answer: its label or number, and its bin."""

    edges: ObservableEdges
    value: Observed
    bin: int

    @property
    def is_class(self) -> bool:
        return self.edges.kind == "class"

    @property
    def low(self) -> bool:
        """A number strictly below the route's line; never while there is no line."""
        low = self.edges.low
        return low is not None and not isinstance(self.value, str) and self.value < low


Sight = tuple[Seen, ...]
"""All that was seen in one answer, so in one row."""


class Watcher:
    """Raises PipelineMismatch when the contract declares what its answers don't hold."""

    def __init__(self, edges: CounterEdges, contract: VersionContract) -> None:
        self._edges = {one.name: one for one in edges.observables}
        declared = {one.name for one in contract.observables}
        self._observe = Observer(contract) if self._edges.keys() & declared else None
        self._bin = Binner(edges)

    def see(self, answers: Sequence[Answer]) -> tuple[Sight, ...]:
        """One entry per answer. Raises PipelineMismatch when a field holds what can't be counted."""
        observe = self._observe
        if observe is None:
            return ()
        return tuple(self._sight(observe(answer)) for answer in answers)

    def _sight(self, observed: list[tuple[str, Observed]]) -> Sight:
        found: list[Seen] = []
        for name, value in observed:
            at = self._bin(name, value)
            if at is not None:
                found.append(Seen(self._edges[name], value, at))
        return tuple(found)
