"""Idle batching on real engine processes: who shares a run, who is never computed, who fails alone."""

import asyncio
import time
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass, field

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from serving.engine.client import EngineClient
from serving.gateway.batching import Lane, LaneRules
from serving.gateway.faults import Fault, IllegalAnswer, Rerouted, RunFault, Shed, TimedOut
from serving.gateway.work import Work
from serving.pipeline.answers import RowAnswer
from serving.pipeline.batch import batch_key
from serving.pipeline.errors import IllegalAnswer as IllegalRow
from serving.runtimes.protocol import Array
from tests.serving import tiny_models
from tests.serving.gateway.conftest import EngineRun, Engines


@dataclass
class Bench:
    """A lane before a real engine. `runs` are the rows of each run that ended well."""

    client: EngineClient
    max_rows: int = 8
    together: bool = True
    queue_rows: int = 64
    run_limit_s: float = 20
    runs: list[int] = field(default_factory=list)
    overdue: list[str] = field(default_factory=list)
    lane: Lane = field(init=False)

    def __post_init__(self) -> None:
        rules = LaneRules(self.max_rows, self.together, True, self.queue_rows, self.run_limit_s)
        self.lane = Lane(rules, self.judge, self.on_run, self.overdue.append)
        self.lane.attach(self.client)

    def judge(self, outputs: dict[str, Array], rows: int) -> Sequence[RowAnswer]:
        return ()

    def on_run(self, works: Sequence[Work], rows: int, engine_us: int) -> None:
        assert sum(work.rows for work in works) == rows
        assert engine_us > 0
        self.runs.append(rows)

    def put(self, inputs: dict[str, Array], seconds: float = 10) -> Work:
        rows = next(iter(inputs.values())).shape[0]
        work = Work(inputs, rows, batch_key(inputs), time.monotonic() + seconds)
        self.lane.put(work)
        return work


@pytest.fixture
async def add(adder: str) -> AsyncIterator[EngineClient]:
    client = await EngineClient.connect(adder)
    yield client
    client.close()


@pytest.fixture
async def gather(failing: str) -> AsyncIterator[EngineClient]:
    client = await EngineClient.connect(failing)
    yield client
    client.close()


@pytest.fixture
async def held(holdable: EngineRun) -> AsyncIterator[EngineClient]:
    """Of an engine that answers nothing until `holdable.release()`."""
    client = await EngineClient.connect(holdable.socket)
    holdable.hold()
    yield client
    client.close()


async def begun(work: Work) -> Work:
    """Returns the work once it was given to the engine."""
    async with asyncio.timeout(60):
        while not work.started:
            await asyncio.sleep(0)
    return work


def ab(rows: int, size: int = 2, value: float = 1.0) -> dict[str, Array]:
    a = np.full((rows, size), value, dtype=np.float32)
    return {"a": a, "b": a}


def x(rows: int = 1) -> dict[str, Array]:
    return {"x": np.ones((rows, 4), dtype=np.float32)}


def index(*values: int) -> dict[str, Array]:
    return {"index": np.array(values, dtype=np.int64).reshape(-1, 1)}


@settings(max_examples=30, deadline=None)
@given(
    requests=st.lists(st.tuples(st.integers(1, 8), st.integers(1, 3)), min_size=1, max_size=24),
    together=st.booleans(),
)
def test_everybody_gets_the_own_rows(adder: str, requests: list[tuple[int, int]], together: bool) -> None:
    """Any mix of row counts and lengths: right answers, no run above the limit, no mixed lengths."""

    async def scenario() -> None:
        client = await EngineClient.connect(adder)
        bench = Bench(client, together=together, queue_rows=1000)
        works = [bench.put(ab(rows, size, float(n))) for n, (rows, size) in enumerate(requests)]
        for n, (work, (rows, size)) in enumerate(zip(works, requests, strict=True)):
            ran = await work.answer()
            np.testing.assert_array_equal(ran.outputs["sum"], np.full((rows, size), 2 * n + 1, np.float32))
            assert ran.batch_rows <= 8
        assert sum(bench.runs) == sum(rows for rows, _ in requests)
        assert bench.lane.queued_rows == 0
        if not together:
            assert len(bench.runs) == len(requests)
        client.close()

    asyncio.run(scenario())


async def test_what_waits_together_runs_together(add: EngineClient) -> None:
    bench = Bench(add)
    works = [bench.put(ab(1)) for _ in range(8)]
    await asyncio.gather(*(work.answer() for work in works))
    assert bench.runs == [8]


async def test_rows_are_counted_not_requests(add: EngineClient) -> None:
    bench = Bench(add)
    works = [bench.put(ab(5)), bench.put(ab(4)), bench.put(ab(3))]
    await asyncio.gather(*(work.answer() for work in works))
    assert bench.runs == [5, 7]
    full = Bench(add, queue_rows=6)
    full.put(ab(4))
    with pytest.raises(Shed, match="4 rows wait already and 6 may"):
        full.put(ab(3))


async def test_an_abandoned_request_is_never_computed(held: EngineClient, holdable: EngineRun) -> None:
    bench = Bench(held)
    first = await begun(bench.put(x()))
    left, late, stays = bench.put(x(2)), bench.put(x(3), seconds=0.01), bench.put(x(1))
    left.fail(Fault("gone"))
    await asyncio.sleep(0.02)
    holdable.release()
    await first.answer()
    await stays.answer()
    assert bench.runs == [1, 1]
    for work in (left, late):
        with pytest.raises(Fault):
            await work.answer()
    assert bench.lane.queued_rows == 0


async def test_the_room_of_a_cancelled_waiter_is_given_back(held: EngineClient, holdable: EngineRun) -> None:
    bench = Bench(held, queue_rows=2)
    first = await begun(bench.put(x()))
    waiter = asyncio.create_task(bench.put(x(2)).answer())
    await asyncio.sleep(0)
    waiter.cancel()
    await asyncio.gather(waiter, return_exceptions=True)
    second = bench.put(x(2))
    holdable.release()
    assert (await second.answer()).batch_rows == 2
    await first.answer()


async def test_a_poisoned_request_fails_alone(gather: EngineClient) -> None:
    bench = Bench(gather)
    works = [bench.put(index(value)) for value in (1, 2, 99, 3, 4, 5, 6)]
    results = await asyncio.gather(*(work.answer() for work in works), return_exceptions=True)
    assert isinstance(results[2], RunFault)
    good = [result for at, result in enumerate(results) if at != 2]
    assert [float(one.outputs["y"][0, 0]) for one in good] == [1, 2, 3, 4, 5, 6]  # type: ignore[union-attr]


async def test_rows_out_must_be_rows_in(engines: Engines) -> None:
    """An engine that gives one row for three is asked again, for each alone."""
    run = engines.start(tiny_models.row_sum(engines.folder / "row_sum.onnx"))
    client = await EngineClient.connect(run.socket)
    bench = Bench(client)
    works = [bench.put({"x": np.full((1, 4), value, dtype=np.float32)}) for value in (1, 2, 3)]
    for value, work in enumerate(works, start=1):
        assert (await work.answer()).outputs["y"].tolist() == [[value] * 4]
    client.close()


async def test_an_engine_of_a_fixed_batch_answers_each_alone(engines: Engines) -> None:
    run = engines.start(tiny_models.classifier(engines.folder / "fixed.onnx", dynamic_batch=False))
    client = await EngineClient.connect(run.socket)
    bench = Bench(client)
    works = [bench.put(x()) for _ in range(3)]
    for work in works:
        assert (await work.answer()).outputs["scores"].shape == (1, 3)
    client.close()


async def test_a_timed_out_run_keeps_the_engine(held: EngineClient, holdable: EngineRun) -> None:
    bench = Bench(held)
    first = await begun(bench.put(x()))
    first.expire()
    second = bench.put(x())
    with pytest.raises(TimedOut) as late:
        await first.answer()
    assert late.value.layer == "engine"
    assert bench.lane.running
    await asyncio.sleep(0.05)
    assert not second.started
    holdable.release()
    await second.answer()
    assert bench.runs == [1, 1]


async def test_a_request_that_would_wait_too_long_is_shed_on_arrival(
    held: EngineClient, holdable: EngineRun
) -> None:
    bench = Bench(held, max_rows=1)
    first = bench.put(x())
    await asyncio.sleep(0.2)
    holdable.release()
    await first.answer()
    assert bench.lane.run_s >= 0.2
    waiting = [bench.put(x()) for _ in range(4)]
    with pytest.raises(Shed, match="would wait") as shed:
        bench.put(x(), seconds=0.1)
    assert shed.value.retry_after_s >= 1
    await asyncio.gather(*(work.answer() for work in waiting))


async def test_low_work_runs_only_when_nothing_else_waits(add: EngineClient) -> None:
    bench = Bench(add, max_rows=1)
    low = Work(ab(1), 1, None, time.monotonic() + 10)
    assert bench.lane.put_low(low)
    works = [bench.put(ab(1)) for _ in range(3)]
    order: list[str] = []
    for name, work in (("low", low), *((str(n), work) for n, work in enumerate(works))):
        work.reply.add_done_callback(lambda _, name=name: order.append(name))
    await asyncio.gather(low.answer(), *(work.answer() for work in works))
    assert order == ["0", "1", "2", "low"]


async def test_an_overdue_run_means_a_lost_engine(held: EngineClient) -> None:
    bench = Bench(held, run_limit_s=0.05)
    with pytest.raises(TimedOut):
        await bench.put(x()).answer()
    assert "longer than 0.05 s" in bench.overdue[0]
    assert not bench.lane.has_engine


async def test_what_a_killed_engine_had_runs_again_and_alone(engines: Engines, copier: str) -> None:
    client, run = await _mortal(engines)
    bench = Bench(client)
    works = [bench.put(x()) for _ in range(3)]
    await begun(works[2])
    works.append(bench.put(x()))
    run.kill()
    await client.lost
    await asyncio.sleep(0)
    assert not bench.lane.has_engine
    second = await EngineClient.connect(copier)
    bench.lane.attach(second)
    await asyncio.gather(*(work.answer() for work in works))
    assert bench.runs == [1, 1, 1, 1]
    second.close()


async def test_a_request_that_kills_two_engines_fails(engines: Engines) -> None:
    client, run = await _mortal(engines)
    bench = Bench(client)
    work = await begun(bench.put(x()))
    run.kill()
    await client.lost
    client, run = await _mortal(engines)
    bench.lane.attach(client)
    await begun(work)
    run.kill()
    with pytest.raises(RunFault, match="lost twice"):
        await work.answer()


async def test_illegal_rows_fail_alone(add: EngineClient) -> None:
    bench = Bench(add)
    bench.lane = Lane(
        bench.lane.rules,
        lambda outputs, rows: [
            {"n": n} if outputs["sum"][n, 0] < 100 else IllegalRow("too much", n) for n in range(rows)
        ],
        bench.on_run,
        bench.overdue.append,
    )
    bench.lane.attach(add)
    works = [bench.put(ab(1, value=value)) for value in (1.0, 99.0, 2.0)]
    results = await asyncio.gather(*(work.answer() for work in works), return_exceptions=True)
    assert [isinstance(result, IllegalAnswer) for result in results] == [False, True, False]
    assert bench.runs == [3]


async def test_leaving_work_is_told_and_pinned_work_stays(held: EngineClient, holdable: EngineRun) -> None:
    bench = Bench(held)
    first = await begun(bench.put(x()))
    waiting = bench.put(x())
    pinned = Work(x(), 1, batch_key(x()), time.monotonic() + 10, pinned=True)
    bench.lane.put(pinned)
    bench.lane.leave(Rerouted)
    with pytest.raises(Rerouted):
        await waiting.answer()
    holdable.release()
    await asyncio.gather(first.answer(), pinned.answer())
    assert bench.lane.queued_rows == 0


async def _mortal(engines: Engines) -> tuple[EngineClient, EngineRun]:
    """An engine to be killed, which holds whatever it is given."""
    run = engines.start(tiny_models.slow(engines.folder / "mortal.onnx", 1))
    client = await EngineClient.connect(run.socket)
    await client.ping()
    run.hold()
    return client, run
