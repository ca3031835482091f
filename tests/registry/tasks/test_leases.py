"""Leases: one holder at a time, on the database's clock, and a stale one writes nothing."""

import asyncio

import pytest

from registry.client import ApiError, builds, tasks, uploads
from registry.contract.builds import BuildCreate, StepPhase, StepReport, StepWrite, TaskFinish
from registry.contract.tasks import BuildOrder, Claim, Fenced, LogChunk, VerifyOrder, VerifyResult
from registry.contract.tokens import Role
from registry.contract.uploads import UploadCreate
from registry.lifecycle.tasks import LEASE_S, MAX_ATTEMPTS
from tests.registry.conftest import Registry
from tests.registry.support import (
    claimed,
    digest_of,
    expire_lease,
    queued,
    ready_version,
    run_sql,
    sent,
)


async def _queued_build(registry: Registry) -> tuple[str, str]:
    """(build, task)."""
    await ready_version(registry)
    build = await registry.client(builds.create(BuildCreate(version="animals@1")))
    (task,) = await queued(registry, "build")
    return build.id, task


async def test_of_many_claims_one_wins(registry: Registry) -> None:
    _, task = await _queued_build(registry)
    claims = await asyncio.gather(
        *(registry.client(tasks.claim(task, Claim(worker=f"worker-{number}"))) for number in range(8))
    )
    (lease,) = [claim for claim in claims if claim is not None]
    assert (lease.attempt, lease.fence, lease.lease_s) == (1, 1, LEASE_S)
    held = await registry.client(tasks.get(task))
    assert (held.phase, held.attempt) == ("leased", 1)
    journal = await run_sql(
        registry, "SELECT event, from_phase, to_phase FROM journal WHERE subject = %s", f"task:{task}"
    )
    assert journal == [("claim", "queued", "leased")]


async def test_claiming_a_build_starts_it(registry: Registry) -> None:
    build, task = await _queued_build(registry)
    lease = await claimed(registry.client, task, "worker-9")
    assert lease.order == BuildOrder(build=build)
    started = await registry.client(builds.get(build))
    assert (started.phase, started.worker, started.attempt) == ("running", "worker-9", 1)


async def test_an_expired_lease_is_taken_over_and_its_holder_fenced(registry: Registry) -> None:
    build, task = await _queued_build(registry)
    first = await claimed(registry.client, task)
    assert await registry.client(tasks.claim(task, Claim(worker="worker-2"))) is None
    await expire_lease(registry, task)
    second = await claimed(registry.client, task, "worker-2")
    assert (second.attempt, second.fence) == (2, first.fence + 1)
    step = StepReport(name="import", phase=StepPhase.DONE)
    with pytest.raises(ApiError, match="held by worker-2") as refused:
        await registry.client(builds.write_step(build, StepWrite(fence=first.fence, step=step)))
    assert (refused.value.status, refused.value.kind) == (409, "fenced")
    for stale in (
        tasks.renew(task, Fenced(fence=first.fence)),
        tasks.log(task, LogChunk(fence=first.fence, seq=0, text="late")),
        builds.finish(build, TaskFinish(fence=first.fence)),
    ):
        with pytest.raises(ApiError) as refused:
            await registry.client(stale)  # type: ignore[misc]
        assert refused.value.kind == "fenced"
    seen = await registry.client(builds.get(build))
    assert (seen.phase, seen.attempt, seen.steps) == ("running", 2, ())
    assert await registry.client(builds.log(build)) == ""


async def test_renewing_prolongs_even_what_nobody_took(registry: Registry) -> None:
    _, task = await _queued_build(registry)
    lease = await claimed(registry.client, task)
    await expire_lease(registry, task)
    before = (await registry.client(tasks.get(task))).lease_until
    after = (await registry.client(tasks.renew(task, Fenced(fence=lease.fence)))).lease_until
    assert before is not None
    assert after is not None
    assert (after - before).total_seconds() >= LEASE_S
    assert await registry.client(tasks.claim(task, Claim(worker="worker-2"))) is None


async def test_log_chunks_are_in_order_and_counted_once(registry: Registry) -> None:
    build, task = await _queued_build(registry)
    lease = await claimed(registry.client, task)
    for seq, text in ((1, "second\n"), (0, "first\n"), (1, "again\n"), (2, "nul \0 byte\n")):
        await registry.client(tasks.log(task, LogChunk(fence=lease.fence, seq=seq, text=text)))
    await expire_lease(registry, task)
    taken = await claimed(registry.client, task)
    await registry.client(tasks.log(task, LogChunk(fence=taken.fence, seq=0, text="attempt 2\n")))
    assert await registry.client(builds.log(build)) == "first\nsecond\nnul \ufffd byte\nattempt 2\n"


async def test_a_task_that_no_worker_finishes_fails_with_its_build(registry: Registry) -> None:
    build, task = await _queued_build(registry)
    for attempt in range(1, MAX_ATTEMPTS + 1):
        lease = await claimed(registry.client, task, f"worker-{attempt}")
        assert lease.attempt == attempt
        await expire_lease(registry, task)
    assert await registry.client(tasks.claim(task, Claim(worker="one-more"))) is None
    async with asyncio.timeout(60):
        while (failed := await registry.client(builds.get(build))).phase != "failed":
            await asyncio.sleep(0.1)
    assert failed.reason.startswith("no worker finished it in 3 attempts; the last, worker-3, was lost at")
    assert (await registry.client(tasks.get(task))).phase == "failed"


async def test_an_upload_that_no_worker_verifies_is_rejected_with_a_reason(registry: Registry) -> None:
    upload = await sent(registry, b"unlucky")
    (task,) = await queued(registry)
    await run_sql(
        registry,
        """UPDATE tasks SET phase = 'leased', attempt = %s, worker = 'w',
               lease_until = clock_timestamp() - interval '1 s'""",
        MAX_ATTEMPTS,
    )
    async with asyncio.timeout(60):
        while (await registry.client(tasks.get(task))).phase != "failed":
            await asyncio.sleep(0.1)
    assert upload.id is not None
    assert (await sent(registry, b"unlucky")).id != upload.id


async def test_a_lost_wake_up_is_sent_again(registry: Registry) -> None:
    _, task = await _queued_build(registry)
    await run_sql(
        registry, "UPDATE tasks SET published_at = published_at - interval '1 hour' WHERE id = %s", task
    )
    async with asyncio.timeout(60):
        while not await run_sql(
            registry, "SELECT 1 FROM tasks WHERE published_at > clock_timestamp() - interval '1 minute'"
        ):
            await asyncio.sleep(0.1)
    assert (await registry.client(tasks.get(task))).phase == "queued"


async def test_old_answers_are_forgotten_and_new_ones_kept(registry: Registry) -> None:
    await _queued_build(registry)
    await run_sql(
        registry,
        """UPDATE idempotency_keys SET created_at = created_at - interval '2 days'
           WHERE route LIKE 'POST /v1/builds%%'""",
    )
    async with asyncio.timeout(60):
        while await run_sql(
            registry, "SELECT 1 FROM idempotency_keys WHERE created_at < now() - interval '1 day'"
        ):
            await asyncio.sleep(0.1)
    assert await run_sql(registry, "SELECT 1 FROM idempotency_keys")


async def test_an_upload_past_its_time_is_aborted(registry: Registry) -> None:
    upload = await registry.client(uploads.create(UploadCreate(digest=digest_of(b"late"), size=4)))
    assert upload.id is not None
    await run_sql(registry, "UPDATE uploads SET expires_at = now() - interval '1 s'")
    async with asyncio.timeout(60):
        while (late := await registry.client(uploads.get(upload.id))).phase != "aborted":
            await asyncio.sleep(0.1)
    assert late.reason.startswith("not completed until")


async def test_only_workers_claim(registry: Registry) -> None:
    _, task = await _queued_build(registry)
    publisher = await registry.as_role(Role.PUBLISHER)
    with pytest.raises(ApiError, match="this needs builder") as refused:
        await publisher(tasks.claim(task, Claim(worker="w")))
    assert refused.value.status == 403
    result = VerifyResult(fence=1, digest=digest_of(b""), size=0, etag="")
    with pytest.raises(ApiError, match="this needs builder"):
        await publisher(tasks.finish_verify(task, result))
    with pytest.raises(ApiError, match="there is no task tsk_none"):
        await registry.client(tasks.claim("tsk_none", Claim(worker="w")))


async def test_a_build_is_no_verify_task(registry: Registry) -> None:
    _, task = await _queued_build(registry)
    lease = await claimed(registry.client, task)
    result = VerifyResult(fence=lease.fence, digest=digest_of(b""), size=0, etag="")
    with pytest.raises(ApiError, match="is a build"):
        await registry.client(tasks.finish_verify(task, result))


async def test_an_order_says_what_to_read(registry: Registry) -> None:
    upload = await sent(registry, b"read me")
    (task,) = await queued(registry)
    order = (await claimed(registry.client, task)).order
    assert isinstance(order, VerifyOrder)
    assert (order.upload, order.digest, order.size) == (upload.id, upload.digest, 7)
