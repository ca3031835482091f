"""Rows that other rooms write: versions with engines, arms, deployments and their routes."""

from collections.abc import Sequence
from dataclasses import dataclass, field

from sqlalchemy import func, select

from registry.contract.counters import CounterEdges, ObservableEdges
from registry.contract.deployments import Policy
from registry.contract.engines import EngineReport, ScoreReference
from registry.contract.recipes import Precision
from registry.contract.routes import ArmRole, Fence, Route, RouteArm, RouteCause, RoutingUnit
from registry.contract.versions import Dtype, FileEntry, Observable, Signature, TensorSpec, VersionContract
from registry.database import Database
from registry.tables.base import new_id
from registry.tables.builds import BuildRow, EngineRow
from registry.tables.deployments import ArmRow, DeploymentRow, RouteRow
from registry.tables.models import ModelRow, VersionRow
from registry.tables.registry import RegistryRow
from registry.tables.releases import ReleaseRow, RollbackNodeRow, RollbackRow
from registry.tables.tasks import TaskRow

MODEL = "filetype"
LABELS = ("pdf", "zip")
EDGES = CounterEdges(
    observables=(
        ObservableEdges(name="label", kind="class", labels=LABELS),
        ObservableEdges(name="score", kind="score", edges=(0.25, 0.5, 0.75), low=0.5),
    )
)
CONTRACT = VersionContract(
    signature=Signature(
        inputs=(TensorSpec(name="x", dtype=Dtype.FP32, shape=("batch", 4)),),
        outputs=(TensorSpec(name="y", dtype=Dtype.FP32, shape=("batch", 2)),),
    ),
    observables=(
        Observable(name="label", kind="class", source="label", labels=LABELS),
        Observable(name="score", kind="score", source="score"),
    ),
)


def digest(text: str) -> str:
    return f"sha256-{text.encode().hex():0<64}"[:71]


def arm_name(number: int) -> str:
    return f"arm-{number:064x}"


@dataclass
class World:
    database: Database
    versions: dict[int, str] = field(default_factory=dict)

    async def arm(
        self,
        number: int,
        targets: Sequence[str] = ("ort.cpu",),
        references: tuple[ScoreReference, ...] = (),
        contract: VersionContract = CONTRACT,
        files: Sequence[FileEntry] = (),
    ) -> str:
        """A version with one FP32 engine per target, and the arm of them."""
        async with self.database.session() as session, session.begin():
            if await session.get(ModelRow, MODEL) is None:
                session.add(ModelRow(name=MODEL, task="", description="", owner="o", tags={}, created_by="t"))
                await session.flush()
            version = VersionRow(
                id=new_id("ver"),
                model=MODEL,
                number=number,
                framework="onnx",
                files=[entry.model_dump(mode="json") for entry in files],
                digests=[entry.digest for entry in files],
                digest=digest(f"v{number}"),
                contract=contract.model_dump(mode="json"),
                lineage={},
                description="",
                tags={},
                phase="ready",
                created_by="t",
            )
            task = TaskRow(id=new_id("tsk"), kind="build", queue="build", subject_id="b", phase="done")
            session.add_all([version, task])
            await session.flush()
            build = BuildRow(
                id=new_id("bld"),
                version_id=version.id,
                recipe={},
                no_cache=False,
                task_id=task.id,
                phase="completed",
                created_by="t",
            )
            session.add(build)
            await session.flush()
            engines = {target: digest(f"{number}/{target}") for target in targets}
            session.add_all(
                EngineRow(
                    id=new_id("eng"),
                    version_id=version.id,
                    build_id=build.id,
                    precision="fp32",
                    target=target,
                    digest=engine,
                    releasable=True,
                    unproven=False,
                    report=EngineReport(
                        precision=Precision.FP32,
                        target=target,
                        digest=engine,
                        size=1000 + number,
                        memory_bytes=5000 + number,
                        key=digest("key"),
                        tools={},
                        gates=(),
                        references=references,
                    ).model_dump(mode="json"),
                )
                for target, engine in engines.items()
            )
            session.add(
                ArmRow(
                    id=arm_name(number),
                    version_id=version.id,
                    precision="fp32",
                    engines=engines,
                    pipeline=digest("pipeline"),
                    proven=True,
                )
            )
        return arm_name(number)

    async def deployment(
        self, name: str = "files", environment: str = "prod", selector: dict[str, str] | None = None
    ) -> str:
        row = DeploymentRow(
            id=new_id("dep"),
            environment=environment,
            name=name,
            model=MODEL,
            selector=selector or {},
            unit=RoutingUnit().model_dump(mode="json"),
            policy=Policy(drain_limit_s=7).model_dump(mode="json"),
            created_by="t",
        )
        async with self.database.session() as session, session.begin():
            session.add(row)
        return row.id

    async def route(
        self,
        deployment: str,
        *arms: tuple[str, ArmRole, int],
        keep: Sequence[str] = (),
        edges: CounterEdges = EDGES,
        notify: bool = True,
    ) -> Route:
        """Appends a generation, and notifies as the registry does."""
        async with self.database.session() as session, session.begin():
            row = (
                await session.execute(
                    select(DeploymentRow).where(DeploymentRow.id == deployment).with_for_update()
                )
            ).scalar_one()
            registry = (await session.execute(select(RegistryRow))).scalar_one()
            row.generation += 1
            route = Route(
                deployment=row.ref,
                fence=Fence(registry_id=registry.id, timeline=registry.timeline, generation=row.generation),
                cause=RouteCause.STEP,
                actor="t",
                reason="",
                arms=tuple(
                    RouteArm(arm=arm, version=f"{MODEL}@{int(arm[4:], 16)}@fp32", role=role, share=share)
                    for arm, role, share in arms
                ),
                keep=tuple(keep),
                unit=RoutingUnit(),
                salt="salt",
                edges=edges,
                created_at=(await session.execute(select(func.clock_timestamp()))).scalar_one(),
            )
            session.add(
                RouteRow(
                    deployment_id=deployment,
                    generation=row.generation,
                    timeline=registry.timeline,
                    cause=route.cause,
                    actor="t",
                    reason="",
                    body=route.model_dump(mode="json"),
                )
            )
            if notify:
                payload = f"{deployment}:{row.generation}"
                await session.execute(select(func.pg_notify("slipway_routes", payload)))
        return route

    async def release(self, deployment: str, arm: str, left_out: Sequence[str] = ()) -> None:
        """An active release of the deployment."""
        async with self.database.session() as session, session.begin():
            session.add(
                ReleaseRow(
                    id=new_id("rel"),
                    deployment_id=deployment,
                    deployment="prod/files",
                    number=1,
                    arm_id=arm,
                    policy={},
                    plan=[],
                    salt="salt",
                    guards=[],
                    laggards=[],
                    left_out=list(left_out),
                    phase="draft",
                    created_by="t",
                )
            )

    async def rollback(self, deployment: str, generation: int, to: str, *nodes: str) -> str:
        """A rollback that waits for the nodes."""
        made = RollbackRow(
            id=new_id("rbk"),
            deployment_id=deployment,
            generation=generation,
            asked_by="t",
            reason="",
            automatic=False,
            from_arms=[],
            to_arm=to,
            notes=[],
        )
        async with self.database.session() as session, session.begin():
            session.add(made)
            await session.flush()
            session.add_all(RollbackNodeRow(rollback_id=made.id, node_id=node, name=node) for node in nodes)
        return made.id
