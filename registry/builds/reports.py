"""Use cases of the workers that build. Every write proves its lease; a stale one changes nothing."""

from registry.builds import repository, service
from registry.builds.represent import represent_build, represent_engines
from registry.contract.builds import Build, CachedStep, EngineWrite, StepWrite, TaskFinish
from registry.contract.engines import Engine, EngineReport
from registry.contract.recipes import Recipe
from registry.contract.tasks import BuildOrder
from registry.contract.versions import Metric
from registry.edge.unit import Unit
from registry.errors import Conflict, Invalid
from registry.lifecycle.builds import BuildEvent
from registry.lifecycle.gates import judge
from registry.models import metrics
from registry.models import service as models
from registry.tables.base import new_id
from registry.tables.builds import BuildRow, EngineRow
from registry.tasks import service as tasks
from registry.uploads import service as uploads


async def start(unit: Unit, build_id: str, worker: str, attempt: int) -> BuildOrder:
    """A worker has claimed the build's task, which is locked: → running."""
    row = await service.row_of(unit.session, build_id)
    version = await models.version_by_id(unit.session, row.version_id)
    unit.principal.require_model(version.model)
    await service.move(unit, build_id, BuildEvent.START, f"attempt {attempt} by {worker}")
    return BuildOrder(build=build_id)


async def exhaust(unit: Unit, build_id: str, reason: str) -> None:
    """No worker came to an end: → failed. The build's task is locked."""
    await service.move(unit, build_id, BuildEvent.FAIL, reason)


async def put_step(unit: Unit, build_id: str, body: StepWrite) -> None:
    """Raises Fenced."""
    row = await _held(unit, build_id, body.fence)
    report = body.step.model_dump(mode="json")
    await repository.put_step(unit.session, row.id, body.step.name, body.step.engine or "", report)


async def put_engine(unit: Unit, build_id: str, body: EngineWrite) -> Engine:
    """Records an engine and judges it by its gates. Raises Fenced, Invalid, Conflict."""
    row = await _held(unit, build_id, body.fence)
    await _check_engine(unit, row, body.engine)
    version = await models.version_by_id(unit.session, row.version_id)
    judgement = judge(body.engine.gates, proven=version.contract.get("golden") is not None)
    kept = await repository.put_engine(
        unit.session,
        EngineRow(
            id=new_id("eng"),
            version_id=row.version_id,
            build_id=row.id,
            precision=body.engine.precision,
            target=body.engine.target,
            digest=body.engine.digest,
            releasable=judgement.releasable,
            unproven=judgement.unproven,
            report={**body.engine.model_dump(mode="json"), "reasons": list(judgement.reasons)},
        ),
    )
    if judgement.releasable:
        metrics.add(unit, version, _measured(body.engine))
    (made,) = await represent_engines(unit.session, [kept])
    unit.audit("engine.record", f"engine:{made.id}", None, made)
    return made


def _measured(engine: EngineReport) -> tuple[Metric, ...]:
    """What validation measured of the engine, as a metric of its version."""
    report = engine.validation
    if report is None or report.engine_metric is None:
        return ()
    return (
        Metric(
            dataset=report.dataset,
            name=report.metric,
            value=report.engine_metric,
            n=report.rows,
            higher_is_better=report.higher_is_better,
            measured_by="pipeline",
            engine=engine.digest,
        ),
    )


async def _check_engine(unit: Unit, row: BuildRow, engine: EngineReport) -> None:
    recipe = Recipe.model_validate(row.recipe)
    if engine.precision not in recipe.precisions or engine.target not in recipe.targets:
        raise Invalid(
            f"{engine.precision}/{engine.target} is not in the recipe of build {row.id}",
            f"it asks for {', '.join(recipe.precisions)} on {', '.join(recipe.targets)}",
        )
    names = [gate.name for gate in engine.gates]
    if len(set(names)) != len(names):
        raise Invalid(f"a gate is reported twice: {', '.join(names)}", "report each gate once")
    size = (await uploads.blob_sizes(unit.session, [engine.digest])).get(engine.digest)
    if size is None:
        raise Conflict(
            f"the engine's bytes {engine.digest} are not uploaded and verified",
            "upload the engine and wait until it is verified, then report it",
        )
    if size != engine.size:
        raise Invalid(
            f"{engine.digest} has {size} bytes, not {engine.size} as reported",
            "digest and size must be taken of the same bytes",
        )


async def finish(unit: Unit, build_id: str, body: TaskFinish) -> Build:
    """running → completed or failed. Repeating it changes nothing. Raises Fenced."""
    row = await service.row_of(unit.session, build_id)
    task = await tasks.locked(unit.session, row.task_id)
    if tasks.ended_by(task, body.fence):
        return await represent_build(unit.session, row)
    await tasks.held(unit.session, row.task_id, body.fence)
    reason = body.reason or ("the worker gave no reason; the log may" if body.failed else "")
    await tasks.end(unit, task, body.failed, reason)
    return await service.move(unit, build_id, BuildEvent.FAIL if body.failed else BuildEvent.FINISH, reason)


async def _held(unit: Unit, build_id: str, fence: int) -> BuildRow:
    row = await service.row_of(unit.session, build_id)
    await tasks.held(unit.session, row.task_id, fence)
    return row


async def cached_step(unit: Unit, key: str) -> CachedStep | None:
    row = await repository.cached_step(unit.session, key)
    return None if row is None else CachedStep(key=row.key, outputs=row.outputs, report=row.report)


async def put_cached_step(unit: Unit, body: CachedStep) -> CachedStep:
    """Gives the first writer's result. Raises Conflict for outputs that nobody could fetch."""
    known = await uploads.blob_sizes(unit.session, body.outputs.values())
    missing = [f"{name} ({digest})" for name, digest in body.outputs.items() if digest not in known]
    if missing:
        raise Conflict(
            f"outputs of the step are not uploaded and verified: {', '.join(missing)}",
            "upload them and wait until they are verified, then keep the step",
            missing,
        )
    await repository.add_cached_step(unit.session, body.key, dict(body.outputs), dict(body.report))
    kept = await cached_step(unit, body.key)
    assert kept is not None
    return kept
