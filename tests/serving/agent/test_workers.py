"""What all gateway workers together have reached."""

from registry.contract.counters import CounterEdges
from registry.contract.routes import RoutingUnit
from serving.agent.workers import SILENT_S, Worker, drained_by_all, overdue, taken_by_all
from serving.control import Table, TableEntry
from tests.serving.agent.making import REGISTRY, fence


def table(seq: int, generation: int) -> Table:
    entry = TableEntry(
        deployment="prod/m",
        model="m",
        fence=fence(generation),
        unit=RoutingUnit(),
        salt="",
        arms=(),
        mirror=0,
        edges=CounterEdges(),
        drain_limit_s=10,
    )
    return Table(seq=seq, registry_id=REGISTRY, entries=(entry,))


def test_a_table_is_taken_when_the_slowest_took_it() -> None:
    one, two = Worker(0), Worker(1)
    assert taken_by_all([one, two]) is None
    for worker in (one, two):
        worker.send(table(1, 1), now=0)
        worker.take(1)
        worker.send(table(2, 2), now=0)
    one.take(2)
    assert taken_by_all([one, two]) == 1
    two.take(2)
    assert taken_by_all([one, two]) == 2


def test_a_worker_that_was_sent_nothing_yet_holds_nobody_up() -> None:
    one = Worker(0)
    one.send(table(1, 1), now=0)
    one.take(1)
    assert taken_by_all([one, Worker(1)]) == 1


def test_a_worker_that_took_no_table_yet_does() -> None:
    one, two = Worker(0), Worker(1)
    for worker in (one, two):
        worker.send(table(1, 1), now=0)
    one.take(1)
    assert taken_by_all([one, two]) is None


def test_drained_is_what_the_slowest_reached() -> None:
    one, two = Worker(0), Worker(1)
    for worker in (one, two):
        worker.send(table(1, 1), now=0)
        worker.send(table(2, 2), now=0)
    one.drain("prod/m", fence(2))
    assert drained_by_all([one, two]) == {"prod/m": fence(1)}
    two.drain("prod/m", fence(2))
    assert drained_by_all([one, two]) == {"prod/m": fence(2)}


def test_a_late_word_of_an_older_generation_changes_nothing() -> None:
    one = Worker(0)
    one.send(table(1, 3), now=0)
    one.drain("prod/m", fence(2))
    assert drained_by_all([one]) == {"prod/m": fence(3)}


def test_a_fresh_worker_has_nothing_older_inside() -> None:
    fresh = Worker(7)
    fresh.send(table(9, 4), now=0)
    assert drained_by_all([fresh]) == {"prod/m": fence(4)}


def test_silence_after_a_table_is_noticed() -> None:
    one = Worker(0)
    one.send(table(1, 1), now=0)
    one.take(1)
    one.send(table(2, 1), now=10)
    one.send(table(3, 1), now=10.5)
    assert overdue([one], 10 + SILENT_S - 0.01) == []
    assert overdue([one], 10 + SILENT_S) == [one], "a newer table gives no more time"
    one.take(2)
    assert overdue([one], 12) == [one]
    one.take(3)
    assert overdue([one], 12) == []
