"""Crashes of every part of a build, on real workers: each costs an attempt at most, and doubles nothing."""

import contextlib
import os
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import psutil
import psycopg
import pytest
import redis
from onnx import helper

from builder.app import app
from registry.client import ApiError, Client, tasks
from registry.contract.builds import Build, BuildPhase, StepPhase
from registry.contract.recipes import Limits, Recipe
from registry.contract.tasks import Fenced
from registry.contract.versions import Version
from registry.lifecycle.tasks import MAX_ATTEMPTS
from tests.builder import made
from tests.builder.rig import BUILDER, Rig, until

# Five steps, of a second each.
QUICK = Recipe(optimise=False)
MIB = 1 << 20

Worker = subprocess.Popen[bytes]


@pytest.fixture
def worker(rig: Rig) -> Worker:
    """On `cpu`: the one of the test before, or another where that killed it."""
    if not rig.workers:
        rig.work("verify")
    alive = [one for one in rig.workers[1:] if one.poll() is None]
    return alive[-1] if alive else rig.work("cpu", f"-{len(rig.workers)}")


@pytest.fixture(scope="module")
def version(rig: Rig) -> Version:
    rig.work("verify")
    return rig.register({"model.onnx": made.conv_model(rig.home / "model.onnx")})


def stopped(worker: Worker, step: str) -> psutil.Process:
    """The process of the step of that name, stopped in the middle of its work: it has loaded ONNX."""
    caught: list[psutil.Process] = []

    def catch() -> bool:
        for one in psutil.Process(worker.pid).children(recursive=True):
            with contextlib.suppress(psutil.NoSuchProcess, FileNotFoundError, ProcessLookupError):
                begun = one.cmdline()[2:5] == ["-m", "builder.steps", step]
                if begun and "onnx" in Path(f"/proc/{one.pid}/maps").read_text():
                    one.suspend()
                    caught.append(one)
                    return one.status() == psutil.STATUS_STOPPED
        return False

    until(f"in the middle of {step}", catch)
    return caught[-1]


def said(worker: Worker) -> str:
    """What it wrote so far: its output is a file."""
    return Path(f"/proc/{worker.pid}/fd/1").read_text()


def pool_process(build: Build) -> psutil.Process:
    """The process of a worker that holds the build's lease: it names itself HOST:PID."""
    assert build.worker is not None
    return psutil.Process(int(build.worker.rpartition(":")[2]))


def claims(rig: Rig, build: str) -> int:
    """How often the build's task was claimed."""
    with psycopg.connect(rig.addresses.database_url) as connection:
        found = connection.execute(
            "SELECT count(*) FROM journal WHERE subject = %s AND event = 'claim'",
            (f"task:{rig.task_of(build)}",),
        ).fetchone()
    assert found is not None
    return int(found[0])


def whole(rig: Rig, build_id: str, attempt: int) -> Build:
    """The build, which ended well at that attempt, with each step and engine once."""
    build = rig.ended(build_id)
    assert (build.phase, build.attempt) == (BuildPhase.COMPLETED, attempt), build.reason
    assert claims(rig, build_id) == attempt
    names = [(step.name, step.engine) for step in build.steps]
    assert len(names) == len(set(names))
    assert {step.phase for step in build.steps} <= {StepPhase.DONE, StepPhase.CACHED, StepPhase.SKIPPED}
    assert len(build.engines) == 1
    return build


def hungry_model(path: Path) -> Path:
    """A classifier that fills half a GiB for each row."""
    nodes = made.conv_nodes()
    filled = [
        helper.make_node("Tile", ["flat", "often"], ["large"]),
        helper.make_node("ReduceMean", ["large"], ["mean"], axes=[1], keepdims=1),
        helper.make_node("Add", ["flat", "mean"], ["changed"]),
    ]
    nodes[4].input[0] = "changed"
    often = np.array([1, 16 * MIB], np.int64)
    return made.conv_model(path, nodes=[*nodes[:4], *filled, *nodes[4:]], more={"often": often})


@contextlib.contextmanager
def busy(rig: Rig, worker: Worker, version: Version) -> Iterator[str]:
    """A build that the worker is in the middle of for as long as this lasts."""
    build = rig.build(version, QUICK, no_cache=True)
    step = stopped(worker, "check")
    try:
        yield build
    finally:
        step.resume()


def test_a_killed_step_fails_its_build_alone(rig: Rig, worker: Worker, version: Version) -> None:
    build_id = rig.build(version, QUICK, no_cache=True)
    stopped(worker, "check").kill()
    build = rig.ended(build_id)
    assert (build.phase, build.attempt) == (BuildPhase.FAILED, 1)
    assert build.reason == "was killed (SIGKILL), most likely because this machine ran out of memory"
    assert (build.steps[-1].name, build.steps[-1].phase) == ("check", StepPhase.FAILED)
    assert worker.poll() is None
    whole(rig, rig.build(version, QUICK), 1)


def test_a_step_without_enough_memory_fails_its_build_alone(
    rig: Rig, worker: Worker, version: Version
) -> None:
    hungry = rig.register({"model.onnx": hungry_model(rig.home / "hungry.onnx")}, model="hungry")
    build = rig.ended(rig.build(hungry, QUICK.model_copy(update={"limits": Limits(step_memory_mib=450)})))
    assert (build.phase, build.attempt) == (BuildPhase.FAILED, 1)
    assert "needed more than its 450 MiB of memory; raise limits.step_memory_mib" in build.reason
    whole(rig, rig.build(version, QUICK), 1)


def test_wake_ups_that_come_often_are_one_attempt(rig: Rig, worker: Worker, version: Version) -> None:
    """Two workers take them; both are woken for work that is under way, and again when it is over."""
    other = rig.work("cpu", "-other")
    build_id = rig.build(version, QUICK, no_cache=True)
    with app.connection_for_write(rig.addresses.redis_url) as connection:
        for _ in range(6):
            app.send_task("slipway.build", args=[rig.task_of(build_id)], queue="cpu", connection=connection)
    build = whole(rig, build_id, 1)
    assert rig.log_of(build_id).count("attempt ") == 1
    with redis.Redis.from_url(rig.addresses.redis_url) as broker:
        until("all wake-ups are taken", lambda: not broker.exists("cpu") and not broker.exists("unacked"))
    assert rig.see(build_id) == build
    other.kill()
    other.wait(30)


def test_a_wiped_broker_costs_no_build_an_attempt(rig: Rig, worker: Worker, version: Version) -> None:
    """Neither the one that is under way nor the one whose wake-up nobody has taken."""
    with redis.Redis.from_url(rig.addresses.redis_url) as broker:
        with busy(rig, worker, version) as running:
            waiting = rig.build(version, QUICK)
            until("the wake-up waits", lambda: any(broker.scan_iter("cpu*")))
            broker.flushall()
        whole(rig, running, 1)
        whole(rig, waiting, 1)


def test_builds_of_higher_priority_begin_first(rig: Rig, worker: Worker, version: Version) -> None:
    with busy(rig, worker, version):
        builds = {priority: rig.build(version, QUICK, priority=priority) for priority in (-5, 0, 1, 60)}
    ended = sorted((rig.ended(build).since, priority) for priority, build in builds.items())
    assert [priority for _, priority in ended] == [60, 1, 0, -5]


def test_a_build_that_kills_its_worker_fails_and_its_neighbour_does_not(
    rig: Rig, worker: Worker, version: Version
) -> None:
    """The process that works on it is killed every time, as by the kernel for its memory."""
    poison = rig.build(version, QUICK, no_cache=True)
    neighbour = ""
    for attempt in range(1, MAX_ATTEMPTS + 1):
        until("claimed", lambda: rig.see(poison).attempt == attempt)  # noqa: B023  # is called at once
        held = pool_process(rig.see(poison))
        steps = held.children(recursive=True)
        held.kill()
        until("no step is left", lambda: not any(one.is_running() for one in steps))  # noqa: B023
        neighbour = neighbour or rig.build(version, QUICK)
        whole(rig, neighbour, 1)
        rig.expire(poison)
    build = rig.ended(poison)
    assert (build.phase, build.attempt) == (BuildPhase.FAILED, MAX_ATTEMPTS)
    assert f"no worker finished it in {MAX_ATTEMPTS} attempts" in build.reason
    assert worker.poll() is None


def test_a_worker_that_was_stopped_for_too_long_writes_nothing_more(
    rig: Rig, worker: Worker, version: Version
) -> None:
    """It wakes after another finished its build, and goes on where it was."""
    build_id = rig.build(version, QUICK, no_cache=True)
    stopped(worker, "check")
    family = [psutil.Process(worker.pid), *psutil.Process(worker.pid).children(recursive=True)]
    for one in family:
        one.suspend()
    stale = rig.see(build_id)
    rig.expire(build_id)
    other = rig.work("cpu", "-meanwhile")
    build, log = whole(rig, build_id, 2), rig.log_of(build_id)
    assert build.worker != stale.worker
    other.kill()
    other.wait(30)
    for one in reversed(family):
        one.resume()
    with Client(rig.registry.url, BUILDER) as client, pytest.raises(ApiError, match="does not hold"):
        client(tasks.renew(rig.task_of(build_id), Fenced(fence=1)))
    # It takes other work, and has given this up before.
    whole(rig, rig.build(version, QUICK), 1)
    assert f"task {rig.task_of(build_id)} was given up" in said(worker)
    assert (rig.see(build_id), rig.log_of(build_id)) == (build, log)


def test_a_group_that_is_killed_at_once_loses_no_step_and_no_line(
    rig: Rig, worker: Worker, version: Version
) -> None:
    """A reader of the log goes on where it was, when another worker does."""
    build_id = rig.build(version, QUICK, no_cache=True)
    stopped(worker, "check")
    until("the log tells of the step", lambda: "── check" in rig.log_of(build_id))
    told = rig.log_of(build_id)
    family = psutil.Process(worker.pid).children(recursive=True)
    os.killpg(worker.pid, signal.SIGKILL)
    worker.wait(30)
    until("no process is left", lambda: not any(one.is_running() for one in family))
    rig.expire(build_id)
    rig.work("cpu", "-next")
    build = whole(rig, build_id, 2)
    assert {step.name for step in build.steps if step.phase is StepPhase.CACHED} == {"sample", "import"}
    log = rig.log_of(build_id)
    assert log.startswith(told), "what a reader has read stays"
    assert log[len(told) :].startswith("attempt 2 of build")
    assert log.endswith("completed\n")


@pytest.mark.parametrize(("room_mib", "where"), [(3, "the worker fetches"), (6, "the step writes")])
def test_a_full_disk_fails_the_step_that_met_it_alone(
    rig: Rig, worker: Worker, version: Version, room_mib: int, where: str
) -> None:
    """The model has 4 MiB, and the work folder is a file system of its own that is too small for it."""
    worker.send_signal(signal.SIGKILL)
    worker.wait(30)
    large = made.conv_model(rig.home / "large.onnx", more={"ballast": np.zeros(MIB, np.float32)})
    (rig.home / f"work-{room_mib}mib").mkdir()
    mounted = f'mount -t tmpfs -o size={room_mib}m tmpfs "$SLIPWAY_WORK_DIR" && exec "$@"'
    within = ("unshare", "--user", "--map-root-user", "--mount", "sh", "-c", mounted, "sh")
    small = rig.work("cpu", f"-{room_mib}mib", before=within)
    build = rig.ended(rig.build(rig.register({"model.onnx": large}, model="large"), QUICK, no_cache=True))
    assert (build.phase, build.attempt) == (BuildPhase.FAILED, 1), where
    assert "the disk of this worker is full (SLIPWAY_WORK_DIR)" in build.reason
    assert (build.steps[-1].name, build.steps[-1].phase) == ("import", StepPhase.FAILED)
    assert small.poll() is None
    whole(rig, rig.build(version, QUICK), 1)
