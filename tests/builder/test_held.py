"""A lease under real conditions: kept, lost by cancelling, lost by silence, and patient in between."""

import threading
import time
from pathlib import Path

import pytest

from builder.held import Held, LeaseLost
from builder.logstream import LogStream
from registry.client import Client, builds, tasks
from registry.contract.builds import BuildPhase, TaskFinish
from registry.contract.recipes import Recipe
from registry.contract.tasks import Claim, Lease
from registry.contract.versions import Version
from tests.builder import made
from tests.builder.rig import Rig, until

SHORT_S = 3.0


@pytest.fixture(scope="module")
def version(rig: Rig, tmp_path_factory: pytest.TempPathFactory) -> Version:
    """Nobody serves the queue `cpu`: these tests are the worker."""
    rig.work("verify")
    folder: Path = tmp_path_factory.mktemp("model")
    return rig.register({"model.onnx": made.conv_model(folder / "model.onnx")})


def claimed(rig: Rig, version: Version, client: Client) -> tuple[str, Lease]:
    """A build whose task this test holds; the lease is taken to be short, so that it is renewed at once."""
    build = rig.build(version, Recipe())
    task = rig.task_of(build)
    lease = client(tasks.claim(task, Claim(worker="a test")))
    assert lease is not None
    return build, lease.model_copy(update={"lease_s": SHORT_S})


def test_a_task_is_claimed_once(rig: Rig, version: Version) -> None:
    with rig.builder as client:
        _, lease = claimed(rig, version, client)
        assert client(tasks.claim(lease.task, Claim(worker="another"))) is None


def test_a_lease_is_renewed_while_the_work_goes_on(rig: Rig, version: Version) -> None:
    with rig.builder as client:
        _, lease = claimed(rig, version, client)
        before = client(tasks.get(lease.task)).lease_until
        with Held(client, lease) as held:
            until("renewed twice", lambda: client(tasks.get(lease.task)).lease_until != before, 20)
            assert not held.lost.is_set()


def test_cancelling_takes_the_lease_and_nothing_is_written_after(rig: Rig, version: Version) -> None:
    with rig.builder as client, rig.client as admin:
        build, lease = claimed(rig, version, client)
        with Held(client, lease) as held:
            admin(builds.cancel(build))
            assert held.lost.wait(20)
            with pytest.raises(LeaseLost, match="cancelled"):
                held.send(builds.finish(build, TaskFinish(fence=held.fence)))
        assert rig.see(build).phase is BuildPhase.CANCELLED


def test_a_stale_fence_is_refused_at_the_first_write(rig: Rig, version: Version) -> None:
    with rig.builder as client:
        build, lease = claimed(rig, version, client)
        with Held(client, lease.model_copy(update={"fence": lease.fence - 1, "lease_s": 600.0})) as stale:
            with pytest.raises(LeaseLost, match="does not hold"):
                stale.send(builds.finish(build, TaskFinish(fence=stale.fence)))
            assert stale.lost.is_set()
        assert rig.see(build).phase is BuildPhase.RUNNING


def test_a_write_waits_for_the_registry_and_then_goes_through(rig: Rig, version: Version) -> None:
    with rig.builder as client:
        build, lease = claimed(rig, version, client)
        with Held(client, lease.model_copy(update={"lease_s": 60.0})) as held:
            rig.registry.stop()
            threading.Timer(2, rig.registry.start).start()
            held.send(builds.finish(build, TaskFinish(fence=held.fence, failed=True, reason="on purpose")))
        until("registry back", lambda: rig.see(build).phase is BuildPhase.FAILED, 20)
        assert rig.see(build).reason == "on purpose"


def test_a_registry_that_stays_away_takes_the_lease(rig: Rig, version: Version) -> None:
    with rig.builder as client:
        build, lease = claimed(rig, version, client)
        with Held(client, lease) as held:
            rig.registry.stop()
            try:
                assert held.lost.wait(30)
                began = time.monotonic()
                with pytest.raises(LeaseLost, match="did not answer"):
                    held.send(builds.get(build))
                assert time.monotonic() - began < 5
            finally:
                rig.registry.start()


def test_a_log_arrives_whole_and_in_order(rig: Rig, version: Version) -> None:
    lines = "".join(f"line {at} of a long log with some ≥ text\n" for at in range(3000))
    with rig.builder as client:
        build, lease = claimed(rig, version, client)
        with Held(client, lease) as held, LogStream(held) as log:
            for at in range(0, len(lines), 777):
                log.write(lines[at : at + 777])
        assert client(builds.log(build)) == lines
