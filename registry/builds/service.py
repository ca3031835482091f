"""Use cases of builds: what people ask for. What workers report is in `reports`."""

from collections.abc import Sequence

from sqlalchemy.ext.asyncio import AsyncSession

from registry.builds import repository
from registry.builds.represent import represent_arm, represent_build, represent_builds, represent_engines
from registry.contract.builds import Build, BuildCreate, BuildPhase
from registry.contract.deployments import Arm
from registry.contract.engines import Engine, EngineReport
from registry.contract.identity import VersionRef, parse_version
from registry.contract.pages import Page
from registry.contract.recipes import Recipe
from registry.contract.versions import Framework, VersionContract, VersionStage
from registry.datasets import service as datasets
from registry.edge.pages import page
from registry.edge.unit import Unit
from registry.errors import GuardFailed, Invalid, NotFound
from registry.lifecycle.builds import BuildEvent
from registry.lifecycle.contracts import is_servable
from registry.lifecycle.recipes import default_recipe, queue_of, recipe_faults
from registry.models import service as models
from registry.tables.base import new_id
from registry.tables.builds import BuildRow, EngineRow
from registry.tables.journal import advance
from registry.tasks import service as tasks


async def create(unit: Unit, body: BuildCreate) -> Build:
    """A build in the queue of its targets. Raises NotFound, Invalid, GuardFailed, Forbidden."""
    ref = _version_ref(body.version)
    unit.principal.require_model(ref.model)
    version = await models.version_row(unit.session, ref.model, ref.number)
    if version.phase != VersionStage.READY:
        said = f": {version.phase_reason}" if version.phase_reason else ""
        raise GuardFailed(
            f"{version.ref} is {version.phase}{said}; only a ready version can be built",
            "upload its files and seal it first"
            if version.phase in (VersionStage.DRAFT, VersionStage.VERIFYING)
            else "register a new version",
        )
    if not is_servable(VersionContract.model_validate(version.contract)):
        raise GuardFailed(
            f"{version.ref} has no serving contract: {version.phase_reason or 'its signature is empty'}",
            "register it again with a contract (slipway version register --contract FILE)",
        )
    recipe = body.recipe or default_recipe(Framework(version.framework))
    await _check(unit.session, recipe)
    build_id = new_id("bld")
    task = await tasks.enqueue(unit, "build", queue_of(recipe.targets[0]), build_id, body.priority)
    row = BuildRow(
        id=build_id,
        version_id=version.id,
        recipe=recipe.model_dump(mode="json"),
        no_cache=body.no_cache,
        task_id=task.id,
        phase=BuildPhase.QUEUED,
        created_by=unit.actor,
    )
    unit.session.add(row)
    await unit.session.flush()
    await unit.session.refresh(row)
    made = await represent_build(unit.session, row)
    unit.audit("build.create", row.subject, None, made)
    return made


def _version_ref(text: str) -> VersionRef:
    try:
        ref = parse_version(text)
    except ValueError as error:
        raise Invalid(str(error), "for example sentiment@7") from error
    if ref.precision is not None:
        raise Invalid(
            f"{text} names a precision; a build is of a version",
            f"write {ref.model}@{ref.number}, and name precisions in the recipe",
        )
    return ref


async def _check(session: AsyncSession, recipe: Recipe) -> None:
    faults = recipe_faults(recipe)
    if faults:
        raise Invalid(faults[0], "correct the recipe by what reasons lists", faults)
    if recipe.calibration is not None:
        await datasets.require_kind(session, recipe.calibration, ("calibration", "training", "reference"))
    if recipe.validation is not None:
        await datasets.require_kind(session, recipe.validation, ("validation", "reference"))


async def get(unit: Unit, build_id: str) -> Build:
    row = await _own(unit, build_id)
    return await represent_build(unit.session, row)


async def listing(unit: Unit, version: str | None, below: str | None, limit: int) -> Page[Build]:
    """Newest first; only those in the token's scope."""
    rows = await repository.builds(
        unit.session, below, limit, await _version_id(unit, version), unit.principal.models
    )
    made = {build.id: build for build in await represent_builds(unit.session, rows[:limit])}
    return page(rows, limit, lambda row: made[row.id], lambda row: row.id)


async def _version_id(unit: Unit, version: str | None) -> str | None:
    if version is None:
        return None
    ref = _version_ref(version)
    return (await models.version_row(unit.session, ref.model, ref.number)).id


async def log(unit: Unit, build_id: str) -> str:
    """All that its workers logged so far, of every attempt."""
    row = await _own(unit, build_id)
    return await tasks.log_of(unit.session, row.id)


async def cancel(unit: Unit, build_id: str) -> Build:
    """queued or running → cancelled. A worker that is at it learns of it at its next write."""
    row = await _own(unit, build_id)
    reason = f"cancelled by {unit.actor}"
    # The task first: that is the order in which workers' reports lock the two.
    await tasks.cancel(unit, row.task_id, reason)
    return await move(unit, build_id, BuildEvent.CANCEL, reason)


async def retry(unit: Unit, build_id: str) -> Build:
    """failed or cancelled → queued, by a new task. Engines that it has recorded stay."""
    await _own(unit, build_id)
    row = await locked(unit.session, build_id)
    before = await represent_build(unit.session, row)
    recipe = Recipe.model_validate(row.recipe)
    await advance(unit.session, row, BuildEvent.RETRY, actor=unit.actor, reason=f"retried by {unit.actor}")
    row.task_id = (await tasks.enqueue(unit, "build", queue_of(recipe.targets[0]), row.id)).id
    await repository.clear_steps(unit.session, row.id)
    await unit.session.flush()
    made = await represent_build(unit.session, row)
    unit.audit("build.retry", row.subject, before, made)
    return made


async def move(unit: Unit, build_id: str, event: BuildEvent, reason: str) -> Build:
    """Locks and moves a build, with its audit entry. Its task must be locked before, where both change."""
    row = await locked(unit.session, build_id)
    before = await represent_build(unit.session, row)
    await advance(unit.session, row, event, actor=unit.actor, reason=reason)
    made = await represent_build(unit.session, row)
    unit.audit(f"build.{event}", row.subject, before, made, reason)
    return made


async def row_of(session: AsyncSession, build_id: str) -> BuildRow:
    """Raises NotFound."""
    row = await repository.build(session, build_id)
    if row is None:
        raise _unknown(build_id)
    return row


async def locked(session: AsyncSession, build_id: str) -> BuildRow:
    """Raises NotFound."""
    row = await repository.build(session, build_id, lock=True)
    if row is None:
        raise _unknown(build_id)
    return row


def _unknown(build_id: str) -> NotFound:
    return NotFound(f"there is no build {build_id}", "GET /v1/builds lists them")


async def _own(unit: Unit, build_id: str) -> BuildRow:
    """The build, if the token's scope includes its model. Raises NotFound, Forbidden."""
    row = await row_of(unit.session, build_id)
    version = await models.version_by_id(unit.session, row.version_id)
    unit.principal.require_model(version.model)
    return row


async def engine(unit: Unit, engine_id: str) -> Engine:
    """Raises NotFound, Forbidden."""
    row = await repository.engine(unit.session, engine_id)
    if row is None:
        raise NotFound(f"there is no engine {engine_id}", "GET /v1/engines lists them")
    (made,) = await represent_engines(unit.session, [row])
    unit.principal.require_model(parse_version(made.version).model)
    return made


async def engines(unit: Unit, version: str | None, below: str | None, limit: int) -> Page[Engine]:
    """Newest first; only those in the token's scope."""
    rows = await repository.engines(
        unit.session, below, limit, await _version_id(unit, version), unit.principal.models
    )
    made = {made.id: made for made in await represent_engines(unit.session, rows[:limit])}
    return page(rows, limit, lambda row: made[row.id], lambda row: row.id)


async def newest_engines(session: AsyncSession, version_id: str, precision: str) -> Sequence[EngineRow]:
    """What an arm is made of, one engine per target: the newest that passed its gates, else the newest
    (whose `report["reasons"]` say what speaks against it)."""
    return await repository.newest_engines(session, version_id, precision)


async def reports_of(session: AsyncSession, arm: Arm) -> list[EngineReport]:
    """The newest report of each engine of an arm, whatever was built since."""
    ref = parse_version(arm.version)
    version = await models.version_row(session, ref.model, ref.number)
    rows = await repository.engines_of_arm(session, version.id, arm.precision, arm.engines)
    return [EngineReport.model_validate(row.report) for row in rows]


async def arm(session: AsyncSession, arm_id: str) -> Arm:
    """Raises NotFound."""
    row = await repository.arm(session, arm_id)
    if row is None:
        raise NotFound(f"there is no arm {arm_id}", "an arm comes to be when a release of it starts")
    return represent_arm(row, (await models.version_by_id(session, row.version_id)).ref)
