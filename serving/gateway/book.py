"""What one arm counted in one generation of a route: exactly one outcome per request, counted at its end.

`assigned` is counted together with the outcome, so that it is always their sum; who is inside meanwhile
stands in the file's own cell, which becomes `died` when this process is killed.
"""

from collections.abc import Callable, Sequence

from registry.contract.counters import BATCH_BUCKETS, Outcome, batch_bucket, latency_bin
from serving.telemetry.counterfile import CounterFile, Extra
from serving.telemetry.observables import Sight


class Book:
    """`on_empty` is called whenever the last open request left, while it is set."""

    def __init__(self, file: CounterFile) -> None:
        self.file = file
        self.open = 0
        self.holds = 0
        self.on_empty: Callable[[], None] | None = None
        self._cells = file.cells
        self._assigned = file.base("assigned")
        self._outcome = {outcome: file.base(f"outcome.{outcome.value}") for outcome in Outcome}
        self._total_us = file.base("total_us")
        self._engine_us = [file.base(f"engine_us.{size}") for size in BATCH_BUCKETS]
        self._bins = {one.name: file.base(f"observable.{one.name}") for one in file.edges.observables}

    def enter(self) -> None:
        self.open += 1
        self._cells[Extra.INFLIGHT] += 1

    def leave(self) -> None:
        self.open -= 1
        self._cells[Extra.INFLIGHT] -= 1
        if not self.open and self.on_empty is not None:
            self.on_empty()

    def count(self, outcome: Outcome, total_us: float, sights: Sequence[Sight]) -> None:
        cells = self._cells
        cells[self._outcome[outcome]] += 1
        cells[self._assigned] += 1
        cells[self._total_us + latency_bin(total_us)] += 1
        for sight in sights:
            for seen in sight:
                cells[self._bins[seen.edges.name] + seen.bin] += 1

    def count_explicit(self) -> None:
        self._cells[Extra.EXPLICIT] += 1

    def count_run(self, rows: int, engine_us: int) -> None:
        """Once per run, not per request: requests of one run share one measurement."""
        self._cells[self._engine_us[batch_bucket(rows)] + latency_bin(engine_us)] += 1

    def close_if_idle(self) -> bool:
        """Unmaps the file once nobody can count here any more."""
        if self.open or self.holds:
            return False
        self._cells = memoryview(bytearray(self._cells.nbytes)).cast("q")
        self.file.close()
        return True


class Ticket:
    """One request's place in a book, from its assignment to its outcome.

    Requests that name a version themselves (`explicit`) are in no book's figures but a total of their own.
    """

    __slots__ = ("book", "explicit")

    def __init__(self, book: Book, explicit: bool) -> None:
        self.book = book
        self.explicit = explicit
        if not explicit:
            book.enter()

    def move(self, book: Book) -> None:
        """A request that waited was given to another arm: it counts there, and only there."""
        if not self.explicit:
            book.enter()
            self.book.leave()
        self.book = book

    def settle(self, outcome: Outcome, total_us: float, sights: Sequence[Sight]) -> None:
        """Called exactly once."""
        if self.explicit:
            self.book.count_explicit()
        else:
            self.book.count(outcome, total_us, sights)
            self.book.leave()
