"""What is watched of an answer, and in which bin it is counted."""

from bisect import bisect_right
from collections.abc import Callable, Iterable, Mapping

from registry.contract.counters import SCORE_BINS, CounterEdges, ObservableEdges
from registry.contract.versions import Observable, VersionContract
from serving.pipeline.answers import Answer, AnswerValue
from serving.pipeline.errors import PipelineMismatch
from serving.pipeline.processing import answer_fields

Observed = str | float


class Observer:
    """The observables of one contract, read from its answers."""

    def __init__(self, contract: VersionContract) -> None:
        """Raises PipelineMismatch when an observable's source is no field of the answers."""
        fields = answer_fields(contract.pipeline, contract.signature)
        for observable in contract.observables:
            if observable.source not in fields:
                raise PipelineMismatch(
                    f"observable {observable.name!r} reads {observable.source!r}; "
                    f"the answer has {', '.join(fields)}"
                )
        self._observables = contract.observables

    def __call__(self, answer: Answer) -> list[tuple[str, Observed]]:
        """(observable, value): a label for `class`, a number for the others. Raises PipelineMismatch when
        a field holds something that can't be counted so."""
        return [(item.name, _observed(item, answer[item.source])) for item in self._observables]


def observe(contract: VersionContract, answer: Answer) -> list[tuple[str, Observed]]:
    """As an Observer does, for one answer; keep an Observer where there are many."""
    return Observer(contract)(answer)


class Binner:
    """The bins of a route's observables: value → index."""

    def __init__(self, edges: CounterEdges | Iterable[ObservableEdges]) -> None:
        observables = edges.observables if isinstance(edges, CounterEdges) else edges
        self._bins: dict[str, Callable[[Observed], int]] = {item.name: _bin_of(item) for item in observables}

    def __call__(self, name: str, value: Observed) -> int | None:
        """None for an observable that the route doesn't count."""
        find = self._bins.get(name)
        return None if find is None else find(value)


def score_edges() -> tuple[float, ...]:
    """The inner edges of the equal bins of [0, 1] on which scores are counted."""
    return tuple(index / SCORE_BINS for index in range(1, SCORE_BINS))


def _observed(observable: Observable, value: AnswerValue) -> Observed:
    kind = observable.kind
    if kind == "class" and isinstance(value, str | int):
        return str(value)
    if kind in ("score", "value", "count") and isinstance(value, int | float):
        return float(value)
    if kind == "count" and isinstance(value, list):
        return float(len(value))
    if kind == "length" and isinstance(value, str | list):
        return float(len(value))
    if kind == "length" and isinstance(value, int | float):
        return float(value)
    got = type(value).__name__
    raise PipelineMismatch(
        f"observable {observable.name!r} is a {kind}, but {observable.source!r} holds a {got}"
    )


def _bin_of(edges: ObservableEdges) -> Callable[[Observed], int]:
    if edges.kind == "class":
        return _ClassBins(edges.labels)
    return _NumberBins(edges.edges)


class _ClassBins:
    def __init__(self, labels: tuple[str, ...]) -> None:
        self._index: Mapping[str, int] = {label: index for index, label in enumerate(labels)}
        self._other = len(labels)

    def __call__(self, value: Observed) -> int:
        return self._index.get(str(value), self._other)


class _NumberBins:
    """Bin i holds edges[i-1] ≤ x < edges[i]."""

    def __init__(self, edges: tuple[float, ...]) -> None:
        self._edges = edges

    def __call__(self, value: Observed) -> int:
        return bisect_right(self._edges, float(value))
