"""What reports carry of the gateway workers' counter files."""

from pathlib import Path

from registry.contract.counters import CounterEdges
from serving.agent.counting import RETIRE_AFTER_S, Counting, forget_incarnation, last_words, old_incarnations
from serving.telemetry.counterfile import CounterFile, CounterKey, Extra, counter_path
from tests.serving.agent.making import arm_id


def counters(state: Path, worker: int = 0, generation: int = 5, incarnation: str = "inc_1") -> CounterFile:
    key = CounterKey(
        incarnation=incarnation, worker=worker, deployment="prod/m", generation=generation, arm=arm_id(1)
    )
    return CounterFile.create(counter_path(state, key), key, CounterEdges())


def test_a_lost_report_takes_nothing_away(tmp_path: Path) -> None:
    file = counters(tmp_path)
    file.add("assigned", n=3)
    counting = Counting(tmp_path, "inc_1")
    counting.gather(1, 0, {"prod/m": 5}, frozenset({0}))
    file.add("assigned", n=2)
    report = counting.gather(2, 1, {"prod/m": 5}, frozenset({0})).reports[0]
    assert report.fields["assigned"].n == (5,)
    assert (report.worker, report.deployment, report.generation, report.seq) == (0, "prod/m", 5, 2)
    assert not report.final
    file.close()


def test_an_earlier_generation_is_told_again_only_when_it_changed(tmp_path: Path) -> None:
    file = counters(tmp_path, generation=4)
    file.add("assigned")
    counting = Counting(tmp_path, "inc_1")
    gathered = counting.gather(1, 0, {"prod/m": 5}, frozenset({0}))
    assert len(gathered.reports) == 1
    counting.accepted(gathered)
    assert counting.gather(2, 1, {"prod/m": 5}, frozenset({0})).reports == ()
    file.add("assigned")
    assert len(counting.gather(3, 2, {"prod/m": 5}, frozenset({0})).reports) == 1
    file.close()


def test_a_killed_worker_is_told_for_the_last_time_with_those_that_died_inside(tmp_path: Path) -> None:
    file = counters(tmp_path)
    file.add("assigned", n=3)
    file.add("outcome.ok", n=3)
    file.cells[Extra.INFLIGHT] = 2
    file.close()
    counting = Counting(tmp_path, "inc_1")
    gathered = counting.gather(1, 0, {"prod/m": 5}, frozenset({1}))
    report = gathered.reports[0]
    assert report.final
    assert (report.fields["assigned"].n, report.fields["outcome.died"].n) == ((5,), (2,))
    counting.accepted(gathered)
    assert not counter_path(tmp_path, file.key).exists()


def test_a_quiet_file_of_an_earlier_generation_is_let_go(tmp_path: Path) -> None:
    file = counters(tmp_path, generation=4)
    file.add("assigned")
    counting = Counting(tmp_path, "inc_1")
    counting.accepted(counting.gather(1, 0, {"prod/m": 5}, frozenset({0})))
    counting.accepted(counting.gather(2, RETIRE_AFTER_S + 1, {"prod/m": 5}, frozenset({0})))
    assert not counter_path(tmp_path, file.key).exists()
    file.close()


def test_last_words_of_an_incarnation_that_was_killed(tmp_path: Path) -> None:
    file = counters(tmp_path, incarnation="inc_0")
    file.add("assigned")
    file.cells[Extra.INFLIGHT] = 1
    file.close()
    counters(tmp_path, incarnation="inc_1").close()
    assert old_incarnations(tmp_path, "inc_1") == ("inc_0",)
    reports = last_words(tmp_path, "inc_0", 77)
    assert [(item.final, item.seq, item.fields["outcome.died"].n) for item in reports] == [(True, 77, (1,))]
    forget_incarnation(tmp_path, "inc_0")
    assert old_incarnations(tmp_path, "inc_1") == ()
