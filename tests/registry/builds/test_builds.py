"""Builds: from an order of people to engines that are judged by their gates."""

import pytest

from registry.builds import service
from registry.client import ApiError, builds, tasks, versions
from registry.contract.builds import (
    BuildCreate,
    CachedStep,
    EngineWrite,
    StepPhase,
    StepReport,
    StepWrite,
    TaskFinish,
)
from registry.contract.deployments import Arm
from registry.contract.engines import GateOutcome
from registry.contract.recipes import Precision, Recipe
from registry.contract.tasks import Fenced
from registry.contract.tokens import Role
from registry.contract.versions import DatasetRef, StageChange
from registry.database import Database
from tests.registry.conftest import Registry
from tests.registry.support import (
    built,
    claimed,
    declared,
    digest_of,
    engine_report,
    gates,
    make_dataset,
    make_model,
    queued,
    ready_version,
    run_sql,
    stored,
)


async def test_a_build_from_order_to_engine(registry: Registry) -> None:
    await ready_version(registry)
    build = await registry.client(builds.create(BuildCreate(version="animals@1")))
    assert (build.phase, build.recipe) == ("queued", Recipe())
    (task,) = await queued(registry, "build")
    assert (await registry.client(tasks.get(task))).queue == "cpu"
    lease = await claimed(registry.client, task)
    for phase in (StepPhase.RUNNING, StepPhase.DONE):
        for name in ("import", "optimise"):
            step = StepReport(name=name, engine=None if name == "import" else "fp32/ort.cpu", phase=phase)
            await registry.client(builds.write_step(build.id, StepWrite(fence=lease.fence, step=step)))
    await stored(registry, b"engine")
    write = EngineWrite(
        fence=lease.fence, engine=engine_report(b"engine", made=gates(golden=GateOutcome.UNPROVEN))
    )
    engine = await registry.client(builds.write_engine(build.id, write))
    assert (engine.releasable, engine.unproven, engine.version) == (True, True, "animals@1")
    assert (await registry.client(builds.write_engine(build.id, write))).id == engine.id
    done = await registry.client(builds.finish(build.id, TaskFinish(fence=lease.fence)))
    assert (done.phase, done.reason) == ("completed", "")
    assert [(step.name, step.phase) for step in done.steps] == [("import", "done"), ("optimise", "done")]
    assert done.engines == (engine,)
    assert await registry.client(builds.finish(build.id, TaskFinish(fence=lease.fence))) == done
    assert await registry.client(builds.get(build.id)) == done
    assert (await registry.client(builds.page(version="animals@1"))).items == (done,)
    assert await registry.client(builds.engine(engine.id)) == engine
    assert (await registry.client(builds.engines(version="animals@1"))).items == (engine,)


async def test_a_failed_gate_refuses_the_engine_word_for_word(registry: Registry) -> None:
    await ready_version(registry)
    build = await built(
        registry, "animals@1", made=gates(parity=GateOutcome.FAILED, validation=GateOutcome.INSUFFICIENT)
    )
    (engine,) = build.engines
    assert not engine.releasable
    assert engine.reasons == ("parity was failed", "validation was insufficient")


async def test_only_a_ready_version_is_built(registry: Registry) -> None:
    await make_model(registry)
    await registry.client(versions.create("animals", declared()))
    with pytest.raises(ApiError, match="animals@1 is draft; only a ready version") as refused:
        await registry.client(builds.create(BuildCreate(version="animals@1")))
    assert refused.value.kind == "guard-failed"
    await ready_version(registry, files={"model.onnx": b"second"})
    await registry.client(versions.quarantine("animals", 2, StageChange(reason="leaks")))
    with pytest.raises(ApiError, match="animals@2 is quarantined: leaks"):
        await registry.client(builds.create(BuildCreate(version="animals@2")))


@pytest.mark.parametrize("version", ["animals", "animals@0", "animals@1@fp32"])
async def test_what_is_no_version_is_told(registry: Registry, version: str) -> None:
    with pytest.raises(ApiError, match=r"MODEL@NUMBER|names a precision") as refused:
        await registry.client(builds.create(BuildCreate(version=version)))
    assert refused.value.status == 422


async def test_data_sets_must_exist_and_be_of_the_kind(registry: Registry) -> None:
    await ready_version(registry)
    unknown = Recipe(validation=DatasetRef(name="nothing", version=1))
    with pytest.raises(ApiError, match="there is no data set nothing@1"):
        await registry.client(builds.create(BuildCreate(version="animals@1", recipe=unknown)))
    calibration = (await make_dataset(registry, "cal", "calibration")).ref
    with pytest.raises(ApiError, match="cal@1 is a calibration set; this needs validation"):
        await registry.client(
            builds.create(BuildCreate(version="animals@1", recipe=Recipe(validation=calibration)))
        )


async def test_an_engine_without_bytes_or_order_is_refused(registry: Registry) -> None:
    await ready_version(registry)
    build = await registry.client(builds.create(BuildCreate(version="animals@1")))
    (task,) = await queued(registry, "build")
    fence = (await claimed(registry.client, task)).fence
    with pytest.raises(ApiError, match="are not uploaded and verified"):
        await registry.client(
            builds.write_engine(build.id, EngineWrite(fence=fence, engine=engine_report(b"nowhere")))
        )
    await stored(registry, b"engine")
    other = engine_report(b"engine", precision=Precision.FP16)
    with pytest.raises(ApiError, match=r"fp16/ort\.cpu is not in the recipe"):
        await registry.client(builds.write_engine(build.id, EngineWrite(fence=fence, engine=other)))
    wrong = engine_report(b"engine").model_copy(update={"size": 99})
    with pytest.raises(ApiError, match="has 6 bytes, not 99"):
        await registry.client(builds.write_engine(build.id, EngineWrite(fence=fence, engine=wrong)))


async def test_a_cancelled_build_fences_its_worker_and_can_run_again(registry: Registry) -> None:
    await ready_version(registry)
    build = await registry.client(builds.create(BuildCreate(version="animals@1")))
    (task,) = await queued(registry, "build")
    lease = await claimed(registry.client, task)
    step = StepReport(name="import", phase=StepPhase.RUNNING)
    await registry.client(builds.write_step(build.id, StepWrite(fence=lease.fence, step=step)))
    cancelled = await registry.client(builds.cancel(build.id))
    assert (cancelled.phase, cancelled.reason) == ("cancelled", "cancelled by admin")
    with pytest.raises(ApiError, match="it is cancelled") as refused:
        await registry.client(tasks.renew(task, Fenced(fence=lease.fence)))
    assert refused.value.kind == "fenced"
    with pytest.raises(ApiError, match="cancel is not possible"):
        await registry.client(builds.cancel(build.id))
    again = await registry.client(builds.retry(build.id))
    assert (again.phase, again.steps, again.attempt) == ("queued", (), 0)
    (second,) = await queued(registry, "build")
    assert second != task
    lease = await claimed(registry.client, second)
    failed = await registry.client(
        builds.finish(build.id, TaskFinish(fence=lease.fence, failed=True, reason="no such operator: Foo"))
    )
    assert (failed.phase, failed.reason) == ("failed", "no such operator: Foo")


async def test_the_first_result_of_a_step_is_kept(registry: Registry) -> None:
    key = digest_of(b"key")
    assert await registry.client(builds.cached_step(key)) is None
    with pytest.raises(ApiError, match=r"graph \(sha256-"):
        await registry.client(
            builds.write_cached_step(CachedStep(key=key, outputs={"graph": digest_of(b"none")}))
        )
    first = CachedStep(key=key, outputs={"graph": await stored(registry, b"a")}, report={"seconds": 1})
    second = CachedStep(key=key, outputs={"graph": await stored(registry, b"b")})
    assert await registry.client(builds.write_cached_step(first)) == first
    assert await registry.client(builds.write_cached_step(second)) == first
    assert await registry.client(builds.cached_step(key)) == first


async def test_the_newest_releasable_engine_of_each_target_makes_the_arm(registry: Registry) -> None:
    version = await ready_version(registry)
    good = await built(registry, "animals@1", targets=("ort.cpu", "openvino.cpu"))
    await built(registry, "animals@1", made=gates(parity=GateOutcome.FAILED))
    database = Database(registry.settings)
    try:
        async with database.session() as session:
            ((version_id,),) = await run_sql(registry, "SELECT id FROM versions")
            chosen = await service.newest_engines(session, version_id, "fp32")
            assert {row.target: row.id for row in chosen} == {
                engine.target: engine.id for engine in good.engines
            }
            assert await service.newest_engines(session, version_id, "fp16") == []
            arm = Arm(
                id=f"arm-{'a' * 64}",
                version="animals@1",
                precision="fp32",
                engines={engine.target: engine.digest for engine in good.engines},
                pipeline="p",
                proven=True,
            )
            reports = await service.reports_of(session, arm)
            assert {report.target: report.digest for report in reports} == arm.engines
    finally:
        await database.close()
    assert version.number == 1


async def test_an_arm_is_found_by_its_id(registry: Registry) -> None:
    await ready_version(registry)
    build = await built(registry, "animals@1")
    (engine,) = build.engines
    arm = f"arm-{'a' * 64}"
    await run_sql(
        registry,
        """INSERT INTO arms (id, version_id, precision, engines, pipeline, proven)
           SELECT %s, id, 'fp32', jsonb_build_object('ort.cpu', %s::text), 'p', true FROM versions""",
        arm,
        engine.digest,
    )
    found = await registry.client(builds.arm(arm))
    assert (found.version, found.engines) == ("animals@1", {"ort.cpu": engine.digest})
    assert (await registry.client(builds.engine(engine.id))).arm == arm
    with pytest.raises(ApiError, match="there is no arm"):
        await registry.client(builds.arm(f"arm-{'b' * 64}"))


async def test_who_may_order_and_who_may_report(registry: Registry) -> None:
    await ready_version(registry)
    worker = await registry.as_role(Role.BUILDER)
    with pytest.raises(ApiError, match="this needs publisher"):
        await worker(builds.create(BuildCreate(version="animals@1")))
    publisher = await registry.as_role(Role.PUBLISHER)
    build = await publisher(builds.create(BuildCreate(version="animals@1")))
    with pytest.raises(ApiError, match="this needs builder"):
        await publisher(builds.finish(build.id, TaskFinish(fence=1)))
    stranger = await registry.as_role(Role.PUBLISHER, models=("plants",))
    with pytest.raises(ApiError, match="limited to the models plants"):
        await stranger(builds.get(build.id))
    assert (await stranger(builds.page())).items == ()
