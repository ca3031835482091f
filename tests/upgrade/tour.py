"""One typical life, as the clients of its time tell it: what `record.py` records. Sequential on purpose."""

import hashlib
from typing import Any, Protocol, TypeVar

from registry.client import (
    AsyncClient,
    access,
    builds,
    datasets,
    deployments,
    models,
    nodes,
    releases,
    tasks,
    uploads,
    versions,
)
from registry.client.call import Call
from registry.client.errors import ApiError
from registry.contract.builds import BuildCreate, CachedStep, EngineWrite, StepReport, StepWrite, TaskFinish
from registry.contract.datasets import DatasetCreate
from registry.contract.deployments import DeploymentCreate, DeploymentPatch, Pin, PlanStep, Policy
from registry.contract.nodes import (
    Applied,
    Assignment,
    DeploymentReport,
    Enrol,
    EnrolmentCreate,
    Hardware,
    Report,
    SlotReport,
)
from registry.contract.recipes import Recipe
from registry.contract.releases import Promote, ReceiptNote, RollBack, Transition
from registry.contract.tasks import Claim, Fenced, LogChunk, VerifyOrder, VerifyResult
from registry.contract.tokens import Role, SessionCreate, TokenCreate
from registry.contract.uploads import UploadCreate
from registry.contract.versions import Metric, MetricsAppend, ModelCreate, ModelPatch, StageChange
from tests.registry import support

T = TypeVar("T")
REF = "prod/animals"
POLICY = Policy(
    plan=(PlanStep(share=500, dwell_s=0), PlanStep(share=10_000, dwell_s=0)),
    auto_advance=False,
    allow_unproven=True,
)


class Stage(Protocol):
    """What the recorder offers: a client per token, the object store, queued tasks, and patience."""

    def client(self, token: str | None = None) -> AsyncClient: ...
    async def put(self, url: str, content: bytes) -> None: ...
    async def fetch(self, url: str) -> tuple[bytes, str]: ...
    async def queued(self, kind: str) -> str: ...
    async def assignment(self, node: str, token: str, etag: str, **fields: Any) -> tuple[Assignment, str]: ...
    async def until(self, call: Call[T], **fields: Any) -> T: ...


async def play(stage: Stage) -> None:
    await _tokens(stage)
    await _versions(stage)
    await _datasets(stage)
    await _builds(stage)
    await _releases(stage)
    await _refusals(stage)


def _digest(content: bytes) -> str:
    return f"sha256-{hashlib.sha256(content).hexdigest()}"


async def _tokens(stage: Stage) -> None:
    admin = stage.client()
    await admin(access.whoami())
    made = await admin(access.create_token(TokenCreate(name="ann", roles=(Role.PUBLISHER, Role.VIEWER))))
    await admin(access.create_token(TokenCreate(name="ci", roles=(Role.VIEWER,), expires_in_s=3600)))
    await admin(access.tokens())
    session = await stage.client(made.secret)(access.create_session(SessionCreate(expires_in_s=600)))
    await stage.client(session.secret)(access.whoami())
    await stage.client(session.secret)(access.end_session())
    await admin(access.revoke_token(made.token.id))


async def _stored(stage: Stage, content: bytes) -> str:
    """Uploads and verifies, as a client and a worker do."""
    client, digest = stage.client(), _digest(content)
    upload = await client(uploads.create(UploadCreate(digest=digest, size=len(content))))
    if upload.exists or upload.id is None:
        return digest
    await client(uploads.get(upload.id))
    for part in upload.parts:
        assert part.url is not None
        await stage.put(part.url, content[part.offset : part.offset + part.size])
    await client(uploads.complete(upload.id))
    task = await stage.queued("verify")
    lease = await client(tasks.claim(task, Claim(worker="w1")))
    assert lease is not None and isinstance(lease.order, VerifyOrder)
    await client(tasks.renew(task, Fenced(fence=lease.fence)))
    read, etag = await stage.fetch(lease.order.url)
    found = VerifyResult(fence=lease.fence, digest=_digest(read), size=len(read), etag=etag)
    await client(tasks.finish_verify(task, found))
    await client(tasks.get(task))
    return digest


async def _versions(stage: Stage) -> None:
    client = stage.client()
    made = await client(models.create(ModelCreate(name="animals", task="classification", tags={"team": "a"})))
    await client(models.patch("animals", ModelPatch(description="cats and dogs"), made.revision))
    for number in (1, 2, 3, 4):
        files = {"model.onnx": f"model {number}".encode()}
        await _stored(stage, files["model.onnx"])
        await client(versions.create("animals", support.declared(files)))
        await client(versions.seal("animals", number))
    await client(versions.get("animals", 1))
    await client(versions.page("animals"))
    await client(versions.quarantine("animals", 3, StageChange(reason="wrong labels")))
    await client(versions.archive("animals", 4, StageChange(reason="not used")))
    await client(uploads.blob(_digest(b"model 1")))
    await client.location(uploads.content(_digest(b"model 1")))
    given_up = await client(uploads.create(UploadCreate(digest=_digest(b"never"), size=5)))
    assert given_up.id is not None
    await client(uploads.abort(given_up.id))
    await client(models.set_alias("animals", "champion", 1))
    await client(models.set_alias("animals", "champion", 2))
    await client(models.aliases("animals"))
    await client(models.delete_alias("animals", "champion"))
    await client(models.get("animals"))
    await client(models.page())


async def _datasets(stage: Stage) -> None:
    client = stage.client()
    shard, index = b"rows", b'{"key":"a"}\n{"key":"b"}\n'
    for content in (shard, index):
        await _stored(stage, content)
    made = await client(
        datasets.create(
            DatasetCreate(
                name="holdout",
                kind="validation",
                form="raw",
                shards=(support.entry("rows.tar", shard),),
                index=support.entry("index.jsonl", index),
                rows=2,
            )
        )
    )
    await client(datasets.get("holdout", 1))
    await client(datasets.page())
    metric = Metric(dataset=made.ref, name="top1", value=0.93, n=2)
    await client(versions.append_metrics("animals", 1, MetricsAppend(metrics=(metric,))))
    await client(versions.metrics("animals", 1))


async def _builds(stage: Stage) -> None:
    client = stage.client()
    for number in (1, 2):
        build = await client(builds.create(BuildCreate(version=f"animals@{number}", recipe=Recipe())))
        task = await stage.queued("build")
        lease = await client(tasks.claim(task, Claim(worker="w2")))
        assert lease is not None
        await client(tasks.log(task, LogChunk(fence=lease.fence, seq=0, text="importing\n")))
        step = StepReport(name="import", phase="done", duration_s=0.5)  # type: ignore[arg-type]
        await client(builds.write_step(build.id, StepWrite(fence=lease.fence, step=step)))
        content = f"engine {number}".encode()
        await _stored(stage, content)
        report = support.engine_report(content)
        made = await client(builds.write_engine(build.id, EngineWrite(fence=lease.fence, engine=report)))
        await client(builds.finish(build.id, TaskFinish(fence=lease.fence)))
        await client(builds.get(build.id))
        await client(builds.log(build.id))
        await client(builds.engine(made.id))
    await client(
        builds.write_cached_step(CachedStep(key=_digest(b"key"), outputs={"graph": _digest(b"model 1")}))
    )
    await client(builds.cached_step(_digest(b"key")))
    other = await client(builds.create(BuildCreate(version="animals@1", no_cache=True)))
    await client(builds.cancel(other.id))
    await client(builds.retry(other.id))
    await client(builds.cancel(other.id))
    await client(builds.page("animals@1"))
    await client(builds.engines("animals@1"))


class _Node:
    """A node's side, one message after another."""

    def __init__(self, stage: Stage, node: str, token: str) -> None:
        self._stage = stage
        self._token = token
        self._call = stage.client(token)
        self.node = node
        self._seq = 0
        self._etag = ""

    async def follows(self, generation: int) -> None:
        """Waits for that generation, has every arm ready, and confirms."""
        wanted = {"fragments.0.fence.generation": generation}
        await self.waits(**wanted)

    async def waits(self, **fields: Any) -> None:
        """For an assignment with these fields; then it reports and confirms what is in it."""
        asked = self._stage.assignment(self.node, self._token, self._etag, **fields)
        answer, self._etag = await asked
        self._seq += 1
        await self._call(nodes.report(self.node, _report(self._seq, answer)))
        for fragment in answer.fragments:
            for moment in ("switched", "drained"):
                body = Applied(
                    incarnation="i1",
                    deployment=fragment.deployment,
                    fence=fragment.fence,
                    moment=moment,
                    local_ms=1,  # type: ignore[arg-type]
                )
                await self._call(nodes.applied(self.node, body))


def _report(seq: int, answer: Assignment) -> Report:
    return Report(
        incarnation="i1",
        seq=seq,
        memory_free_bytes=1 << 30,
        slots=tuple(
            SlotReport(
                deployment=fragment.deployment,
                arm=arm.arm,
                version=arm.version,
                engine=arm.engine.digest if arm.engine else None,
                phase="ready",  # type: ignore[arg-type]
            )
            for fragment in answer.fragments
            for arm in fragment.arms
        ),
        deployments=tuple(
            DeploymentReport(
                deployment=fragment.deployment,
                fence=fragment.fence,
                switched=True,
                drained=True,
                shares={arm.arm: arm.share for arm in fragment.arms},
                ready=True,
            )
            for fragment in answer.fragments
        ),
    )


async def _node(stage: Stage) -> _Node:
    admin = stage.client()
    invited = await admin(nodes.invite(EnrolmentCreate(environment="prod")))
    hardware = Hardware(cores=2, memory_bytes=1 << 30)
    body = Enrol(name="n1", targets=("ort.cpu",), hardware=hardware, address="n1:8000", labels={"zone": "a"})
    enrolled = await stage.client(invited.secret)(nodes.enrol(body))
    node = _Node(stage, enrolled.node, enrolled.token)
    await node.waits(draining=False)
    await admin(nodes.drain(node.node))
    await node.waits(draining=True)
    await admin(nodes.undrain(node.node))
    await node.waits(draining=False)
    return node


async def _begun(stage: Stage, node: _Node, number: int, phase: str) -> None:
    """The node prepares, the controller goes on to `phase`, the node follows that."""
    await node.follows(await _generation(stage))
    release = await stage.until(releases.get(REF, number), phase=phase)
    assert release.number == number
    await node.follows(await _generation(stage))


async def _generation(stage: Stage) -> int:
    requested = (await stage.client()(deployments.get(REF))).requested
    assert requested is not None
    return requested.fence.generation


async def _releases(stage: Stage) -> None:
    client = stage.client()
    made = await client(
        deployments.create(
            DeploymentCreate(environment="prod", name="animals", model="animals", policy=POLICY)
        )
    )
    await client(deployments.patch(REF, DeploymentPatch(selector={"zone": "a"}), made.revision))
    await client(deployments.pin(REF, Pin(reason="freeze")))
    await client(deployments.unpin(REF))
    node = await _node(stage)
    await client(releases.promote(REF, Promote(version="animals@1", reason="first")))
    await _begun(stage, node, 1, "completing")
    await stage.until(releases.get(REF, 1), phase="completed")
    await node.follows(await _generation(stage))
    await client(releases.promote(REF, Promote(version="animals@2")))
    await _begun(stage, node, 2, "running")
    # What follows shows a verdict: the controller must have looked once.
    await stage.until(releases.get(REF, 2), **{"verdict.kind": "hold"})
    await client(releases.pause(REF, 2, Transition(reason="lunch")))
    await client(releases.resume(REF, 2, Transition()))
    await client(releases.explain(REF, 2))
    receipt = await client(releases.roll_back(REF, RollBack(reason="wrong answers")))
    await node.follows(receipt.generation)
    await stage.until(releases.receipt(receipt.id), all_drained=True)
    await client(releases.note(receipt.id, ReceiptNote(text="found by ann")))
    await client(releases.receipts(REF))
    await client(deployments.unpin(REF))
    await stage.until(releases.get(REF, 2), phase="rolled_back")
    await client(releases.promote(REF, Promote(version="animals@2")))
    await client(releases.abort(REF, 3, Transition(reason="changed our minds")))
    await client(releases.page(REF))
    for call in (deployments.get(REF), deployments.page(), deployments.status(REF), deployments.routes(REF)):
        await client(call)  # type: ignore[arg-type]
    await client(deployments.nodes(REF))
    await client(deployments.drift(REF))
    await client(deployments.served(REF, "2100-01-01T00:00:00Z"))
    arm = (await client(deployments.get(REF))).stable
    assert arm is not None
    await client(builds.arm(arm.id))
    await client(nodes.get(node.node))
    await client(nodes.page("prod"))
    await client(access.audit(subject="deployment:", limit=3))


async def _refusals(stage: Stage) -> None:
    """One of each kind of problem that a client has to understand."""
    client = stage.client()
    calls: tuple[Call[Any], ...] = (
        models.get("nothing"),
        models.create(ModelCreate(name="animals")),
        models.patch("animals", ModelPatch(description="stale"), 1),
        Call("POST", "/v1/models", None, Transition()),
        Call("PATCH", "/v1/models/animals", None, ModelPatch(description="blind")),
        releases.promote(REF, Promote(version="animals@3")),
        versions.archive("animals", 1, StageChange(reason="in use")),
    )
    for call in calls:
        try:
            await client(call)
        except ApiError:
            continue
        raise AssertionError(f"{call.method} {call.path} was not refused")
    try:
        await stage.client("slp_unknown")(access.whoami())
    except ApiError as error:
        assert error.status == 401
