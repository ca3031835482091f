"""Steps that many tests need. Tests play the workers here: they claim, read and report as workers do."""

import asyncio
import contextlib
import hashlib
from collections.abc import AsyncIterator, Mapping, Sequence
from typing import Any, LiteralString

import httpx
import psycopg

from registry.client import AsyncClient, builds, datasets, models, tasks, uploads, versions
from registry.client.errors import ApiError
from registry.contract.builds import Build, BuildCreate, EngineWrite, TaskFinish
from registry.contract.datasets import Dataset, DatasetCreate, DatasetKind
from registry.contract.engines import BenchReport, EngineReport, Gate, GateOutcome
from registry.contract.pipeline import Classify, PipelineSpec
from registry.contract.recipes import Precision, Recipe
from registry.contract.tasks import Claim, Lease, VerifyOrder, VerifyResult
from registry.contract.uploads import Upload, UploadCreate, UploadPhase
from registry.contract.versions import (
    Dtype,
    FileEntry,
    Framework,
    Lineage,
    ModelCreate,
    Observable,
    Signature,
    TensorSpec,
    Version,
    VersionContract,
    VersionCreate,
)
from tests.registry.conftest import Registry

LABELS = ("cat", "dog", "fox")
TRIES = 50
FILES: Mapping[str, bytes] = {"model.onnx": b"the bytes of a model"}


def digest_of(content: bytes) -> str:
    return f"sha256-{hashlib.sha256(content).hexdigest()}"


def entry(path: str, content: bytes) -> FileEntry:
    return FileEntry(path=path, digest=digest_of(content), size=len(content))


def contract(golden: str | None = None, labels: Sequence[str] = LABELS) -> VersionContract:
    """x: FP32[batch, 4] → scores: FP32[batch, labels]; watched are the label and its score."""
    return VersionContract(
        signature=Signature(
            inputs=(TensorSpec(name="x", dtype=Dtype.FP32, shape=("batch", 4)),),
            outputs=(TensorSpec(name="scores", dtype=Dtype.FP32, shape=("batch", len(labels))),),
        ),
        pipeline=PipelineSpec(post=(Classify(output="scores", labels=tuple(labels)),)),
        observables=(
            Observable(name="label", kind="class", source="label", labels=tuple(labels)),
            Observable(name="score", kind="score", source="score"),
        ),
        golden=golden,
    )


def declared(files: Mapping[str, bytes] = FILES, made: VersionContract | None = None) -> VersionCreate:
    return VersionCreate(
        framework=Framework.ONNX,
        files=tuple(entry(path, content) for path, content in files.items()),
        contract=made or contract(),
    )


async def run_sql(registry: Registry, statement: LiteralString, *values: object) -> list[tuple[Any, ...]]:
    """What only time or a crash would do: shortening a lease, ageing a row, losing one."""
    url = registry.settings.database_url.get_secret_value()
    async with await psycopg.AsyncConnection.connect(url, autocommit=True) as connection:
        cursor = await connection.execute(statement, values)
        return [] if cursor.description is None else await cursor.fetchall()


async def expire_lease(registry: Registry, task: str) -> None:
    await run_sql(
        registry, "UPDATE tasks SET lease_until = clock_timestamp() - interval '1 s' WHERE id = %s", task
    )


async def make_model(registry: Registry, name: str = "animals") -> None:
    """Creates the model where it is missing."""
    try:
        await registry.client(models.create(ModelCreate(name=name)))
    except ApiError as error:
        if error.status != 409:
            raise


async def send_parts(upload: Upload, content: bytes) -> None:
    """PUTs the parts that are missing."""
    async with httpx.AsyncClient(trust_env=False, timeout=30) as store:
        for part in upload.parts:
            if part.url is not None:
                piece = content[part.offset : part.offset + part.size]
                (await store.put(part.url, content=piece)).raise_for_status()


async def sent(registry: Registry, content: bytes, digest: str | None = None) -> Upload:
    """Uploads bytes (under another digest, to tell a lie) up to `verifying`."""
    body = UploadCreate(digest=digest or digest_of(content), size=len(content))
    upload = await registry.client(uploads.create(body))
    if upload.exists or upload.id is None:
        return upload
    for _ in range(TRIES):
        assert upload.id is not None
        try:
            await send_parts(upload, content)
        except httpx.HTTPStatusError:
            # Someone else of the same name, with the same bytes, has let the store join the parts.
            await asyncio.sleep(0.1)
            upload = await registry.client(uploads.get(upload.id))
            if upload.phase is not UploadPhase.OPEN:
                return upload
        else:
            return await registry.client(uploads.complete(upload.id))
    raise AssertionError(f"{upload.id} took no parts")


async def read(order: VerifyOrder) -> tuple[str, int, str]:
    """What a verify worker finds: digest, size, ETag."""
    async with httpx.AsyncClient(trust_env=False, timeout=30) as store:
        answer = await store.get(order.url)
        answer.raise_for_status()
        return digest_of(answer.content), len(answer.content), answer.headers["etag"]


async def queued(registry: Registry, kind: str = "verify") -> list[str]:
    """Ids of tasks that wait for a worker, oldest first."""
    rows = await run_sql(
        registry, "SELECT id FROM tasks WHERE kind = %s AND phase = 'queued' ORDER BY id", kind
    )
    return [str(row[0]) for row in rows]


async def claimed(client: AsyncClient, task: str, worker: str = "worker-1") -> Lease:
    lease = await client(tasks.claim(task, Claim(worker=worker)))
    assert lease is not None
    return lease


async def verify(registry: Registry, task: str) -> None:
    """Plays the verify worker for one task."""
    lease = await claimed(registry.client, task)
    assert isinstance(lease.order, VerifyOrder)
    digest, size, etag = await read(lease.order)
    found = VerifyResult(fence=lease.fence, digest=digest, size=size, etag=etag)
    await registry.client(tasks.finish_verify(task, found))


async def verify_all(registry: Registry) -> int:
    """Plays the verify worker until nothing waits; gives how many tasks there were."""
    done = 0
    while waiting := await queued(registry):
        for task in waiting:
            await verify(registry, task)
        done += len(waiting)
    return done


async def stored(registry: Registry, content: bytes) -> str:
    """Uploads and verifies bytes; gives their digest."""
    await sent(registry, content)
    await verify_all(registry)
    return digest_of(content)


async def ready_version(
    registry: Registry,
    model: str = "animals",
    files: Mapping[str, bytes] = FILES,
    made: VersionContract | None = None,
    lineage: Lineage | None = None,
) -> Version:
    """A sealed and verified version of the model, which is created where it is missing."""
    await make_model(registry, model)
    for content in files.values():
        await stored(registry, content)
    body = declared(files, made)
    if lineage is not None:
        body = body.model_copy(update={"lineage": lineage})
    version = await registry.client(versions.create(model, body))
    version = await registry.client(versions.seal(model, version.number))
    assert version.stage == "ready", version.stage_reason
    return version


async def make_dataset(registry: Registry, name: str, kind: DatasetKind = "validation") -> Dataset:
    """A data set of one shard and two rows."""
    shard, index = f"shard of {name}".encode(), b'{"key":"a"}\n{"key":"b"}\n'
    for content in (shard, index):
        await stored(registry, content)
    return await registry.client(
        datasets.create(
            DatasetCreate(
                name=name,
                kind=kind,
                form="raw",
                shards=(entry("rows.tar", shard),),
                index=entry("index.jsonl", index),
                rows=2,
            )
        )
    )


def gates(**outcomes: GateOutcome) -> tuple[Gate, ...]:
    """Every gate passed but those that are named: gates(parity=GateOutcome.FAILED)."""
    names = ("golden", "parity", "validation", "speed")
    return tuple(
        Gate.model_validate(
            {
                "name": name,
                "outcome": outcomes.get(name, GateOutcome.PASSED),
                "reason": f"{name} was {outcomes.get(name, GateOutcome.PASSED)}",
            }
        )
        for name in names
    )


def engine_report(
    content: bytes,
    precision: Precision = Precision.FP32,
    target: str = "ort.cpu",
    made: tuple[Gate, ...] | None = None,
) -> EngineReport:
    return EngineReport(
        precision=precision,
        target=target,
        digest=digest_of(content),
        size=len(content),
        memory_bytes=1 << 20,
        key=digest_of(b"key" + content),
        tools={"onnxruntime": "1"},
        gates=made if made is not None else gates(),
    )


async def built(
    registry: Registry,
    version: str,
    precisions: Sequence[Precision] = (Precision.FP32,),
    targets: Sequence[str] = ("ort.cpu",),
    made: tuple[Gate, ...] | None = None,
    bench: BenchReport | None = None,
) -> Build:
    """Plays the build worker: a completed build with one engine for each precision and target."""
    recipe = Recipe(precisions=tuple(precisions), targets=tuple(targets))
    if Precision.INT8_STATIC in precisions:
        recipe = recipe.model_copy(
            update={"calibration": (await make_dataset(registry, "cal", "calibration")).ref}
        )
    build = await registry.client(builds.create(BuildCreate(version=version, recipe=recipe)))
    (task,) = await queued(registry, "build")
    lease = await claimed(registry.client, task)
    for precision in precisions:
        for target in targets:
            content = f"engine of {version} {precision} {target}".encode()
            await stored(registry, content)
            report = engine_report(content, precision, target, made).model_copy(update={"bench": bench})
            await registry.client(
                builds.write_engine(build.id, EngineWrite(fence=lease.fence, engine=report))
            )
    return await registry.client(builds.finish(build.id, TaskFinish(fence=lease.fence)))


@contextlib.asynccontextmanager
async def verifying(registry: Registry) -> AsyncIterator[None]:
    """A verify worker beside the block, for clients that wait."""

    async def work() -> None:
        while True:
            await verify_all(registry)
            await asyncio.sleep(0.05)

    task = asyncio.create_task(work())
    try:
        yield
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
