"""Distributions of what a contract wants watched, as an engine answered them on the validation rows."""

from collections import Counter
from collections.abc import Sequence

import numpy as np

from builder.steps.step import Refused
from registry.contract.counters import CLASS_LIMIT, ObservableEdges
from registry.contract.engines import ScoreReference
from registry.contract.versions import Observable, VersionContract
from serving.pipeline.answers import Answer
from serving.pipeline.errors import PipelineMismatch
from serving.pipeline.observe import Binner, Observed, Observer, score_edges

# Bins of a number whose contract gives no edges: equal shares of the reference.
NUMBER_BINS = 32


class References:
    """Add answers, then read one reference per observable."""

    def __init__(self, contract: VersionContract) -> None:
        """Raises Refused when an observable reads what the answers don't hold."""
        try:
            self._observe = Observer(contract)
        except PipelineMismatch as error:
            raise Refused(f"the contract's observables don't fit its answers: {error}") from error
        self._observables = contract.observables
        self._classes: dict[str, Counter[str]] = {}
        self._numbers: dict[str, list[float]] = {}

    def add(self, answer: Answer) -> None:
        try:
            observed = self._observe(answer)
        except PipelineMismatch as error:
            raise Refused(f"the contract's observables don't fit its answers: {error}") from error
        for name, value in observed:
            if isinstance(value, str):
                self._classes.setdefault(name, Counter())[value] += 1
            else:
                self._numbers.setdefault(name, []).append(value)

    def all(self) -> tuple[ScoreReference, ...]:
        return tuple(self._reference(observable) for observable in self._observables)

    def _reference(self, observable: Observable) -> ScoreReference:
        seen = self._classes.get(observable.name, Counter())
        numbers = self._numbers.get(observable.name, [])
        edges = ObservableEdges(
            name=observable.name,
            kind=observable.kind,
            labels=_labels(observable, seen),
            edges=_edges(observable, numbers),
        )
        find = Binner([edges])
        counts = [0] * edges.bins
        values: list[tuple[Observed, int]] = [*seen.items(), *((number, 1) for number in numbers)]
        for value, times in values:
            index = find(observable.name, value)
            assert index is not None, "the binner knows its only observable"
            counts[index] += times
        return ScoreReference(
            observable=observable.name,
            kind=observable.kind,
            labels=edges.labels,
            edges=edges.edges,
            counts=tuple(counts),
        )


def _labels(observable: Observable, seen: Counter[str]) -> tuple[str, ...]:
    """The contract's own first, then the most frequent; at most what is counted."""
    if observable.kind != "class":
        return ()
    frequent = sorted(seen, key=lambda label: (-seen[label], label))
    return tuple(dict.fromkeys((*observable.labels, *frequent)))[:CLASS_LIMIT]


def _edges(observable: Observable, numbers: Sequence[float]) -> tuple[float, ...]:
    if observable.kind == "class":
        return ()
    if observable.kind == "score":
        return score_edges()
    if observable.edges or not numbers:
        return observable.edges
    quantiles = np.quantile(np.asarray(numbers), np.arange(1, NUMBER_BINS) / NUMBER_BINS)
    return tuple(float(edge) for edge in np.unique(quantiles))
