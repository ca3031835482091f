"""The collector takes what nothing refers to, and nothing else, whatever else happens meanwhile."""

import asyncio
import contextlib
from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta

import psycopg
import pytest
from mypy_boto3_s3 import S3Client

from registry.blobs.store import BlobStore
from registry.broker import Broker
from registry.client import ApiError, builds, datasets, retention, uploads, versions
from registry.contract.builds import BuildCreate, CachedStep
from registry.contract.datasets import Dataset, DatasetCreate, DatasetPatch
from registry.contract.retention import Garbage, GarbageCollect, GarbageKind
from registry.contract.tokens import Role
from registry.contract.uploads import UploadCreate
from registry.contract.versions import StageChange
from registry.database import Database
from registry.edge.resources import Resources
from registry.identity import establish
from registry.lifecycle.parts import PART_SIZE
from registry.listen import Listener
from registry.retention import collector
from registry.retention.loop import Collecting
from registry.retention.referrers import REFERRERS
from registry.tables.all import metadata
from tests import patience
from tests.registry.conftest import Registry
from tests.registry.support import (
    built,
    declared,
    digest_of,
    entry,
    make_dataset,
    queued,
    ready_version,
    run_sql,
    send_parts,
    sent,
    stored,
    verify,
)

LOST = b"nobody wants this"


@pytest.fixture
async def collecting(registry: Registry) -> AsyncIterator[Collecting]:
    """The collector of another process."""
    settings = registry.settings
    database, blobs, broker = Database(settings), BlobStore(settings), Broker(settings)
    resources = Resources(
        settings, database, blobs, broker, Listener(settings.database_url.get_secret_value())
    )
    yield Collecting(resources, await establish(database, settings))
    broker.close()
    blobs.close()
    await database.close()


async def age(registry: Registry) -> None:
    """As if everything that is there had been there for a year."""
    await run_sql(
        registry,
        "UPDATE blobs SET verified_at = verified_at - interval '1 year', "
        "promised_at = promised_at - interval '1 year'",
    )


async def collect(registry: Registry, *, dry_run: bool = False) -> list[Garbage]:
    """All passes of a run."""
    found: list[Garbage] = []
    body = GarbageCollect(dry_run=dry_run, grace_s=3600)
    while True:
        swept = await registry.client(retention.collect(body))
        found += swept.garbage
        if swept.cursor is None:
            return found
        body = body.model_copy(update={"cursor": swept.cursor})


async def exists(registry: Registry, digest: str) -> bool:
    try:
        await registry.client(uploads.blob(digest))
    except ApiError as error:
        assert error.status == 404
        return False
    return True


def keys(s3: S3Client, registry: Registry) -> set[str]:
    answer = s3.list_objects_v2(Bucket=registry.settings.s3_bucket)
    return {item["Key"] for item in answer.get("Contents", []) if "Key" in item}


async def test_what_nothing_refers_to_goes_and_the_rest_stays(registry: Registry, s3: S3Client) -> None:
    """Versions of every stage, data sets, engines, cached steps, running builds, uploads under way."""
    lost = await stored(registry, LOST)
    await ready_version(registry, files={"model.onnx": b"of a ready version"})
    archived = await ready_version(registry, "old", files={"model.onnx": b"of an archived version"})
    await registry.client(versions.archive("old", archived.number, StageChange(reason="old")))
    await stored(registry, b"of a draft")
    await registry.client(versions.create("animals", declared({"model.onnx": b"of a draft"})))
    await make_dataset(registry, "calset", "calibration")
    await built(registry, "animals@1")
    output = await stored(registry, b"output of a step")
    await registry.client(
        builds.write_cached_step(CachedStep(key=digest_of(b"key"), outputs={"onnx": output}))
    )
    under_way = await sent(registry, b"under way")
    await age(registry)
    before = {digest for (digest,) in await run_sql(registry, "SELECT digest FROM blobs")}
    would = await collect(registry, dry_run=True)
    assert [(item.kind, item.name, item.size) for item in would] == [(GarbageKind.BLOB, lost, len(LOST))]
    assert await exists(registry, lost)
    assert await collect(registry) == would
    assert {digest for (digest,) in await run_sql(registry, "SELECT digest FROM blobs")} == before - {lost}
    assert lost not in keys(s3, registry)
    assert {*before - {lost}, f"staging-{under_way.id}"} <= keys(s3, registry)
    (audited,) = await run_sql(registry, "SELECT subject FROM audit WHERE action = 'blob.collect'")
    assert audited == (f"blob:{lost}",)
    assert await collect(registry) == []


async def test_outputs_of_a_running_build_stay_until_it_ends(registry: Registry) -> None:
    await ready_version(registry)
    build = await registry.client(builds.create(BuildCreate(version="animals@1")))
    output = await stored(registry, b"handed over")
    await run_sql(
        registry,
        "INSERT INTO steps (build_id, name, engine, position, report) "
        "VALUES (%s, 'import', '', 0, jsonb_build_object('name', 'import', 'phase', 'done', 'outputs', "
        "jsonb_build_object('onnx', %s::text)))",
        build.id,
        output,
    )
    await age(registry)
    assert await collect(registry) == []
    await registry.client(builds.cancel(build.id))
    assert [item.name for item in await collect(registry)] == [output]


async def test_what_is_young_or_was_promised_stays(registry: Registry) -> None:
    digest = await stored(registry, LOST)
    assert await collect(registry) == []
    await age(registry)
    told = await registry.client(uploads.create(UploadCreate(digest=digest, size=len(LOST))))
    assert told.exists
    assert await collect(registry) == []
    await run_sql(registry, "UPDATE blobs SET promised_at = promised_at - interval '2 hours'")
    assert [item.name for item in await collect(registry)] == [digest]


async def test_collected_bytes_come_back_under_a_key_of_their_own(registry: Registry, s3: S3Client) -> None:
    """So that a deletion that comes late, from a process that slept over it, takes nothing away."""
    digest = await stored(registry, LOST)
    await age(registry)
    await collect(registry)
    assert not await exists(registry, digest)
    assert await stored(registry, LOST) == digest
    s3.delete_object(Bucket=registry.settings.s3_bucket, Key=digest)
    url = await registry.client.location(uploads.content(digest))
    assert f"{digest}.1" in url
    assert keys(s3, registry) == {f"{digest}.1"}
    await age(registry)
    await collect(registry)
    await stored(registry, LOST)
    assert keys(s3, registry) == {f"{digest}.2"}


async def test_an_object_whose_deletion_was_cut_off_is_deleted_later(
    registry: Registry, s3: S3Client
) -> None:
    digest = await stored(registry, LOST)
    await age(registry)
    await collect(registry)
    s3.put_object(Bucket=registry.settings.s3_bucket, Key=digest, Body=LOST)
    await run_sql(registry, "UPDATE collected_objects SET deleted_at = NULL")
    await collect(registry)
    assert keys(s3, registry) == set()


async def test_bytes_that_are_about_to_be_referred_to_stay(registry: Registry) -> None:
    """A transaction that refers to a blob has locked it; the collector leaves it out, and sees it later."""
    digest = await stored(registry, LOST)
    await age(registry)
    url = registry.settings.database_url.get_secret_value()
    async with await psycopg.AsyncConnection.connect(url) as other:
        await other.execute("SELECT 1 FROM blobs WHERE digest = %s FOR KEY SHARE", (digest,))
        assert await collect(registry) == []
        await other.rollback()
    assert [item.name for item in await collect(registry)] == [digest]


async def test_registrations_beside_collections_lose_nothing(registry: Registry) -> None:
    """Every blob is old at every moment, so that only locks and looks protect it."""
    over = asyncio.Event()

    async def collecting() -> int:
        runs = 0
        while not over.is_set():
            await age(registry)
            await collect(registry)
            runs += 1
        return runs

    collector = asyncio.create_task(collecting())
    try:
        made = await asyncio.gather(*(_registered(registry, f"rows {n % 2}".encode()) for n in range(4)))
    finally:
        over.set()
        assert await collector
    for dataset in made:
        for file in (*dataset.shards, dataset.index):
            url = await registry.client.location(uploads.content(file.digest))
            async with patience.async_client() as store:
                assert digest_of((await store.get(url)).raise_for_status().content) == file.digest


async def _registered(registry: Registry, shard: bytes) -> Dataset:
    """Again and again: the bytes may be collected until the data set refers to them."""
    body = DatasetCreate(
        name="rows",
        kind="validation",
        form="raw",
        shards=(entry("rows.tar", shard),),
        index=entry("index.jsonl", b"{}"),
        rows=1,
    )
    while True:
        for content in (shard, b"{}"):
            await sent(registry, content)
        for task in await queued(registry):
            with contextlib.suppress(AssertionError, ApiError):
                await verify(registry, task)
        try:
            return await registry.client(datasets.create(body))
        except ApiError as error:
            assert "not uploaded and verified" in error.problem.detail


async def test_leavings_of_uploads_are_swept(registry: Registry, s3: S3Client) -> None:
    """Staging objects and multipart uploads without an upload that goes on, old objects without a blob."""
    bucket = registry.settings.s3_bucket
    content = bytes(PART_SIZE) + b"more"
    going = await registry.client(uploads.create(UploadCreate(digest=digest_of(content), size=len(content))))
    await send_parts(going.model_copy(update={"parts": going.parts[:1]}), content)
    waiting = await sent(registry, b"waits for its verification")
    rejected = await sent(registry, b"one", digest=digest_of(b"two"))
    await run_sql(registry, "UPDATE uploads SET phase = 'rejected' WHERE id = %s", rejected.id)
    aborted = await registry.client(uploads.create(UploadCreate(digest=digest_of(b"three"), size=5)))
    await run_sql(registry, "UPDATE uploads SET phase = 'aborted' WHERE id = %s", aborted.id)
    s3.put_object(Bucket=bucket, Key="staging-upl_unknown", Body=b"its row may be on its way")
    s3.put_object(Bucket=bucket, Key=digest_of(b"four"), Body=b"four")
    s3.put_object(Bucket=bucket, Key="somebody-elses", Body=b"not ours")
    found = {(item.kind, item.name) for item in await collect(registry, dry_run=True)}
    assert found == {
        (GarbageKind.STAGING, f"staging-{rejected.id}"),
        (GarbageKind.MULTIPART, f"staging-{aborted.id}"),
    }
    assert {(item.kind, item.name) for item in await collect(registry)} == found
    assert await collect(registry) == []
    assert f"staging-{waiting.id}" in keys(s3, registry)
    resumed = await registry.client(
        uploads.create(UploadCreate(digest=digest_of(content), size=len(content)))
    )
    assert [part.url is None for part in resumed.parts] == [True, False]


async def test_an_object_that_the_registry_does_not_know_is_given_up(
    registry: Registry, collecting: Collecting, s3: S3Client
) -> None:
    """Of a promotion whose commit never came. A running upload of the same bytes protects it."""
    kept = await stored(registry, b"a blob")
    upload = await sent(registry, LOST)
    s3.put_object(Bucket=registry.settings.s3_bucket, Key=upload.digest, Body=LOST)
    assert await _later(collecting) == []
    await run_sql(registry, "UPDATE uploads SET phase = 'aborted' WHERE digest = %s", upload.digest)
    await run_sql(registry, "UPDATE tasks SET phase = 'cancelled' WHERE phase = 'queued'")
    assert await _later(collecting) == [
        (GarbageKind.STAGING, f"staging-{upload.id}"),
        (GarbageKind.ORPHAN, upload.digest),
    ]
    assert keys(s3, registry) == {kept}
    await stored(registry, LOST)
    assert keys(s3, registry) == {kept, f"{upload.digest}.1"}


async def _later(collecting: Collecting) -> list[tuple[GarbageKind, str]]:
    """What goes of the store's objects in two hours, whose age no test can change."""
    body = GarbageCollect.model_construct(dry_run=False, grace_s=-7200, cursor="objects:")
    swept = await collector.collect(collecting.unit, body)
    return [(item.kind, item.name) for item in swept.garbage]


async def test_by_itself_one_of_all_processes_collects(registry: Registry, collecting: Collecting) -> None:
    digest = await stored(registry, LOST)
    await age(registry)
    await collecting.when_due()
    assert await exists(registry, digest)
    await run_sql(registry, "UPDATE chores SET begun_at = begun_at - interval '1 day'")
    claims = [await collecting.is_due() for _ in range(3)]
    assert claims == [True, False, False]
    await run_sql(registry, "UPDATE chores SET begun_at = begun_at - interval '1 day'")
    await collecting.when_due()
    assert not await exists(registry, digest)


async def test_data_sets_go_after_their_retention(registry: Registry) -> None:
    free = await make_dataset(registry, "free")
    used = await make_dataset(registry, "used", "calibration")
    await ready_version(registry)
    await registry.client(
        builds.create(
            BuildCreate.model_validate(
                {
                    "version": "animals@1",
                    "recipe": {"precisions": ["int8-static"], "calibration": {"name": "used", "version": 1}},
                }
            )
        )
    )
    past = datetime.now(UTC) - timedelta(seconds=1)
    for dataset in (free, used):
        changed = await registry.client(
            datasets.patch(dataset.name, 1, DatasetPatch(retain_until=past), dataset.revision)
        )
        assert changed.revision == dataset.revision + 1
    first = await registry.client(retention.collect(GarbageCollect()))
    assert [(item.kind, item.name) for item in first.garbage] == [(GarbageKind.DATASET, "free@1")]
    (kept,) = first.kept
    assert kept.name == "used@1"
    assert "was calibrated with it" in kept.referrers[0]
    with pytest.raises(ApiError, match="there is no data set free@1"):
        await registry.client(datasets.get("free", 1))
    assert (await make_dataset(registry, "free")).version == 2


async def test_only_an_admin_collects(registry: Registry) -> None:
    publisher = await registry.as_role(Role.PUBLISHER)
    with pytest.raises(ApiError, match="this needs admin") as refused:
        await publisher(retention.collect(GarbageCollect()))
    assert refused.value.status == 403
    with pytest.raises(ApiError, match="cursor was not made by this collector"):
        await registry.client(retention.collect(GarbageCollect(cursor="nonsense")))


def test_every_column_that_may_hold_a_digest_is_decided() -> None:
    """Either the collector asks it (REFERRERS), or it is here with the reason why not."""
    decided = {
        "versions.digest": "of files and contract, not of bytes",
        "datasets.digest": "of its description, not of bytes",
        "blobs.digest": "what is collected",
        "collected_objects.digest": "what was collected",
    }
    asked = {
        "versions.digests",
        "datasets.digests",
        "engines.digest",
        "uploads.digest",
        "mlflow_artifacts.digest",
    }
    assert set(REFERRERS) >= {name.partition(".")[0] for name in asked}
    found = {
        f"{table.name}.{column.name}"
        for table in metadata.tables.values()
        for column in table.columns
        if "digest" in column.name
    }
    assert found == asked | set(decided)
