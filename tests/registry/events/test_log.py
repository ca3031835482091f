"""The log: what is told, in the order of its publication, and what of it a token sees."""

import asyncio

import psycopg
import pytest

from registry.client import ApiError, events, models, versions
from registry.contract.events import (
    AliasChanged,
    BuildPhaseChanged,
    EngineRecorded,
    PinChanged,
    VersionStageChanged,
    parse_event_id,
)
from registry.contract.tokens import Role
from registry.contract.versions import StageChange
from registry.database import Database
from registry.events.prune import prune
from tests.registry import support
from tests.registry.conftest import Registry
from tests.registry.events import telling

WROTE = """INSERT INTO outbox (type, subject, deployment, actor, data)
           VALUES ('deployment.pin_changed', 'deployment:prod/a', 'prod/a', %s,
                   '{"pinned": true, "reason": ""}')"""


async def test_a_models_way_is_told_in_order(registry: Registry) -> None:
    await support.ready_version(registry)
    await support.built(registry, "animals@1")
    await registry.client(models.set_alias("animals", "best", 1))
    await registry.client(models.set_alias("animals", "best", 1))
    await registry.client(models.delete_alias("animals", "best"))
    await registry.client(versions.quarantine("animals", 1, StageChange(reason="wrong labels")))
    told = await telling.logged(registry, VersionStageChanged, 3)
    assert [event.type for event in told] == [
        "version.stage_changed",
        "version.stage_changed",
        "build.phase_changed",
        "engine.recorded",
        "build.phase_changed",
        "alias.changed",
        "alias.changed",
        "version.stage_changed",
    ]
    sealed, build, engine = told[1], told[4], told[3]
    assert isinstance(sealed, VersionStageChanged)
    assert (sealed.subject, sealed.model, sealed.actor) == ("version:animals@1", "animals", "admin")
    assert (sealed.data.from_stage, sealed.data.to_stage) == ("verifying", "ready")
    assert isinstance(build, BuildPhaseChanged)
    assert (build.data.version, build.data.to_phase, build.model) == ("animals@1", "completed", "animals")
    assert isinstance(engine, EngineRecorded)
    assert (engine.data.version, engine.data.build) == ("animals@1", build.data.build)
    assert [(a.data.before, a.data.after) for a in told if isinstance(a, AliasChanged)] == [
        (None, 1),
        (1, None),
    ]
    last = told[-1]
    assert isinstance(last, VersionStageChanged)
    assert (last.data.to_stage, last.data.reason) == ("quarantined", "wrong labels")
    ids = [parse_event_id(event.id) for event in told]
    assert [id.number for id in ids] == list(range(1, len(ids) + 1))


async def test_what_is_rolled_back_is_not_told(registry: Registry) -> None:
    await telling.make_deployments(registry, "a")
    viewer = await registry.as_role(Role.VIEWER)
    with pytest.raises(ApiError, match="this needs releaser"):
        await telling.pin(viewer, "a")
    await telling.pin(registry.client, "a")
    told = await telling.logged(registry, PinChanged, 2)
    assert [event.type for event in told] == ["deployment.pin_changed"] * 2


async def test_who_commits_late_is_numbered_late_and_never_skipped(registry: Registry) -> None:
    """The first to write is the last to commit: its number is higher than what readers have seen."""
    url = registry.settings.database_url.get_secret_value()
    async with await psycopg.AsyncConnection.connect(url) as slow:
        await slow.execute(WROTE, ["slow"])
        await support.run_sql(registry, WROTE, "fast")
        (fast,) = await telling.logged(registry, PinChanged)
        seen = (await registry.client(events.page())).after
        assert (fast.actor, seen) == ("fast", fast.id)
        await slow.commit()
    await telling.logged(registry, PinChanged, 2)
    (late,) = await telling.log(registry, after=seen)
    assert late.actor == "slow"
    assert parse_event_id(late.id) > parse_event_id(fast.id)


async def test_pages_filters_and_the_place_to_go_on_from(registry: Registry) -> None:
    await telling.make_deployments(registry, "a", "b")
    await telling.pin(registry.client, "a", 2)
    await telling.pin(registry.client, "b", 1)
    await registry.client(models.set_alias("animals", "best", (await support.ready_version(registry)).number))
    told = await telling.logged(registry, AliasChanged)
    pins = ["deployment.pin_changed"]
    first = await registry.client(events.page(limit=2, deployments=["prod/*"]))
    assert [event.id for event in first.items] == [event.id for event in told[:2]]
    rest = await registry.client(events.page(first.after, ["deployment.*"], ["prod/*"], 100))
    assert [event.id for event in rest.items] == [event.id for event in told[2:6]]
    assert rest.after == told[-1].id, "what was filtered out is not read again"
    assert len(await telling.log(registry, types=pins, deployments=["prod/b"])) == 2
    assert await telling.log(registry, types=["release.*"]) == []
    with pytest.raises(ApiError, match="there is no event 9-1 yet"):
        await registry.client(events.page("9-1"))
    with pytest.raises(ApiError, match="is not an event's id"):
        await registry.client(events.page("latest"))


async def test_a_limited_token_sees_what_it_may(registry: Registry) -> None:
    await telling.make_deployments(registry, "a")
    await telling.pin(registry.client, "a")
    await registry.client(models.set_alias("animals", "best", (await support.ready_version(registry)).number))
    await telling.logged(registry, AliasChanged)
    dev = await registry.as_role(Role.VIEWER, environments=("dev",))
    assert {event.environment for event in (await dev(events.page())).items} == {None}
    other = await registry.as_role(Role.VIEWER, models=("plants",))
    assert (await other(events.page())).items == ()


async def test_old_events_go_and_a_reader_who_missed_them_is_told(registry: Registry) -> None:
    await telling.make_deployments(registry, "a")
    await telling.pin(registry.client, "a", 2)
    told = await telling.logged(registry, PinChanged, 4)
    await support.run_sql(registry, "UPDATE events SET at = at - interval '31 days' WHERE number <= 2", *[])

    database = Database(registry.settings)
    async with database.session() as session, session.begin():
        assert await prune(session, registry.settings.events_keep_s) == 2
    await database.close()
    assert [event.id for event in await telling.log(registry)] == [event.id for event in told[2:]]
    assert len(await telling.log(registry, after=told[1].id)) == 2
    with pytest.raises(
        ApiError, match=f"events after {told[0].id} up to {told[1].id} are no longer kept"
    ) as e:
        await telling.log(registry, after=told[0].id)
    assert (e.value.status, e.value.kind) == (410, "gone")


async def test_many_at_once_are_numbered_without_a_gap(registry: Registry) -> None:
    names = ("a", "b", "c", "d")
    await telling.make_deployments(registry, *names)
    await asyncio.gather(*(telling.pin(registry.client, name, 3) for name in names))
    told = await telling.logged(registry, PinChanged, 24)
    assert [parse_event_id(event.id).number for event in told] == list(range(1, 25))
    for name in names:
        assert telling.reasons(told, name) == ["0", "1", "2"]
