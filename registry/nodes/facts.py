"""The queries behind the directory: nodes, deployments with their newest route, arms with their engines."""

from collections.abc import Collection
from dataclasses import dataclass
from datetime import timedelta

from sqlalchemy import ColumnElement, func, select
from sqlalchemy.ext.asyncio import AsyncSession

from registry.contract.deployments import Policy
from registry.contract.engines import EngineReport
from registry.contract.identity import ArmId
from registry.contract.nodes import EngineRef
from registry.contract.routes import Route
from registry.contract.versions import FileEntry, VersionContract
from registry.identity import Identity
from registry.lifecycle.releases import ACTIVE_PHASES
from registry.nodes.fragments import ArmFacts, DeploymentFacts, NodeFacts
from registry.tables.builds import EngineRow
from registry.tables.deployments import ArmRow, DeploymentRow, RouteRow
from registry.tables.models import VersionRow
from registry.tables.nodes import NodeRow
from registry.tables.registry import RegistryRow
from registry.tables.releases import ReleaseRow

FLEET_MEMORY = timedelta(hours=1)


@dataclass(frozen=True)
class Signature:
    """Differs when anything of a deployment changed that its nodes are told."""

    generation: int
    revision: int
    left_out: frozenset[str]

    def is_of(self, known: DeploymentFacts | None) -> bool:
        return known is not None and self == Signature(known.generation, known.revision, known.left_out)


async def identity(session: AsyncSession) -> Identity:
    row = (await session.execute(select(RegistryRow.id, RegistryRow.timeline))).one()
    return Identity(row.id, row.timeline)


async def fleet(session: AsyncSession) -> int:
    """Number of nodes that were in contact of late."""
    recently = func.now() - FLEET_MEMORY
    return (await session.execute(select(func.count()).where(NodeRow.last_seen_at > recently))).scalar_one()


async def nodes(session: AsyncSession, ids: Collection[str]) -> list[NodeFacts]:
    return await _nodes(session, NodeRow.id.in_(ids))


async def nodes_of(session: AsyncSession, environments: Collection[str]) -> list[NodeFacts]:
    return await _nodes(session, NodeRow.environment.in_(environments))


async def _nodes(session: AsyncSession, which: ColumnElement[bool]) -> list[NodeFacts]:
    found = await session.execute(
        select(
            NodeRow.id, NodeRow.name, NodeRow.environment, NodeRow.targets, NodeRow.labels, NodeRow.draining
        ).where(which)
    )
    return [
        NodeFacts(row.id, row.name, row.environment, tuple(row.targets), dict(row.labels), row.draining)
        for row in found
    ]


async def signatures(session: AsyncSession, environments: Collection[str]) -> dict[str, Signature]:
    """By id, of the deployments that have a route."""
    found = await session.execute(
        select(
            DeploymentRow.id,
            DeploymentRow.generation,
            DeploymentRow.revision,
            ReleaseRow.left_out,
        )
        .outerjoin(ReleaseRow, _active())
        .where(DeploymentRow.environment.in_(environments), DeploymentRow.generation > 0)
    )
    return {row.id: Signature(row.generation, row.revision, frozenset(row.left_out or ())) for row in found}


async def deployments(session: AsyncSession, ids: Collection[str]) -> list[DeploymentFacts]:
    """Those of `ids` that have a route, with the newest one."""
    found = await session.execute(
        select(DeploymentRow, RouteRow.body, ReleaseRow.left_out)
        .join(
            RouteRow,
            (RouteRow.deployment_id == DeploymentRow.id) & (RouteRow.generation == DeploymentRow.generation),
        )
        .outerjoin(ReleaseRow, _active())
        .where(DeploymentRow.id.in_(ids))
    )
    return [
        DeploymentFacts(
            id=row.id,
            ref=row.ref,
            environment=row.environment,
            model=row.model,
            selector=dict(row.selector),
            revision=row.revision,
            drain_limit_s=Policy.model_validate(row.policy).drain_limit_s,
            route=Route.model_validate(body),
            left_out=frozenset(left_out or ()),
        )
        for row, body, left_out in found
    ]


async def newest_fence(session: AsyncSession, ref: str) -> tuple[int, int] | None:
    """Timeline and generation of the newest route of `env/name`; (0, 0) without one, None: no deployment."""
    environment, _, name = ref.partition("/")
    found = (
        await session.execute(
            select(func.coalesce(RouteRow.timeline, 0), DeploymentRow.generation)
            .outerjoin(
                RouteRow,
                (RouteRow.deployment_id == DeploymentRow.id)
                & (RouteRow.generation == DeploymentRow.generation),
            )
            .where(DeploymentRow.environment == environment, DeploymentRow.name == name)
        )
    ).one_or_none()
    return None if found is None else (found[0], found[1])


def _active() -> ColumnElement[bool]:
    return (ReleaseRow.deployment_id == DeploymentRow.id) & ReleaseRow.phase.in_(ACTIVE_PHASES)


async def arms(session: AsyncSession, ids: Collection[ArmId]) -> dict[ArmId, ArmFacts]:
    """Arms with the newest report of each of their engines."""
    rows = (
        await session.execute(
            select(ArmRow, VersionRow)
            .join(VersionRow, VersionRow.id == ArmRow.version_id)
            .where(ArmRow.id.in_(ids))
        )
    ).all()
    digests = {digest for arm, _ in rows for digest in arm.engines.values()}
    engines = (
        await session.execute(
            select(EngineRow).where(EngineRow.digest.in_(digests)).order_by(EngineRow.created_at)
        )
    ).scalars()
    reports = {
        (row.version_id, row.target, row.digest): EngineReport.model_validate(row.report) for row in engines
    }
    return {
        arm.id: ArmFacts(
            arm.id,
            f"{version.ref}@{arm.precision}",
            {
                target: _engine(arm.precision, report)
                for target, digest in arm.engines.items()
                if (report := reports.get((arm.version_id, target, digest))) is not None
            },
            contract := VersionContract.model_validate(version.contract),
            _read_by(contract, version),
        )
        for arm, version in rows
    }


def _read_by(contract: VersionContract, version: VersionRow) -> tuple[FileEntry, ...]:
    """The version's files that its pipeline reads."""
    named = contract.pipeline.files
    return tuple(FileEntry.model_validate(entry) for entry in version.files if entry["path"] in named)


def _engine(precision: str, report: EngineReport) -> EngineRef:
    return EngineRef(
        digest=report.digest,
        size=report.size,
        target=report.target,
        precision=precision,
        memory_bytes=report.memory_bytes,
        batchable=report.batchable,
    )
