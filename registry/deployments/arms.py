"""Resolving an arm: version × precision × engines × pipeline, named by the digest of these."""

from dataclasses import dataclass

from sqlalchemy.ext.asyncio import AsyncSession

from registry.builds import service as builds
from registry.contract.deployments import Arm
from registry.contract.identity import VersionRef
from registry.contract.versions import VersionContract
from registry.contract.wire import sha256_of
from registry.deployments import repository
from registry.lifecycle.guards import EngineFacts
from registry.models import service as models
from registry.tables.builds import EngineRow
from registry.tables.deployments import ArmRow
from registry.tables.models import VersionRow

DEFAULT_PRECISION = "fp32"


@dataclass(frozen=True)
class Resolved:
    """`arm` None: no engine of that precision passed its gates; `refused` then says why."""

    version: VersionRow
    precision: str
    arm: Arm | None
    engines: tuple[EngineFacts, ...]
    refused: tuple[EngineFacts, ...]

    @property
    def contract(self) -> VersionContract:
        return VersionContract.model_validate(self.version.contract)


def arm_id(version: str, precision: str, engines: dict[str, str], pipeline: str) -> str:
    """The digest of what an arm is. A change of any part is another arm."""
    digest = sha256_of(
        {"version": version, "precision": precision, "engines": dict(engines), "pipeline": pipeline}
    )
    return f"arm-{digest.removeprefix('sha256-')}"


def pipeline_digest(contract: VersionContract) -> str:
    """Of all that stands around the engine: processing, signature, observables, batch limits."""
    return sha256_of(contract)


def _facts(row: EngineRow) -> EngineFacts:
    return EngineFacts(
        target=row.target,
        releasable=row.releasable,
        unproven=row.unproven,
        reasons=tuple(row.report.get("reasons", ())),
        memory_bytes=int(row.report["memory_bytes"]),
    )


async def resolve(session: AsyncSession, ref: VersionRef) -> Resolved:
    """The arm of a version's newest engines that passed their gates. Raises NotFound for the version."""
    version = await models.version_row(session, ref.model, ref.number)
    precision = ref.precision or DEFAULT_PRECISION
    rows = await builds.newest_engines(session, version.id, precision)
    good = [row for row in rows if row.releasable]
    arm = None
    if good:
        contract = VersionContract.model_validate(version.contract)
        engines = {row.target: row.digest for row in good}
        pipeline = pipeline_digest(contract)
        row = ArmRow(
            id=arm_id(version.ref, precision, engines, pipeline),
            version_id=version.id,
            precision=precision,
            engines=engines,
            pipeline=pipeline,
            proven=not any(engine.unproven for engine in good),
        )
        await repository.keep_arm(session, row)
        arm = (await repository.arms(session, {row.id}))[row.id]
    return Resolved(
        version,
        precision,
        arm,
        tuple(_facts(row) for row in good),
        tuple(_facts(row) for row in rows if not row.releasable),
    )


async def contract_of(session: AsyncSession, arm: Arm) -> VersionContract:
    model, _, number = arm.version.partition("@")
    version = await models.version_row(session, model, int(number))
    return VersionContract.model_validate(version.contract)
