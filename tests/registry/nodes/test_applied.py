"""The two confirmed moments, and the receipts that wait for them."""

import asyncio

import psycopg
import pytest
from sqlalchemy import select

from registry.contract.routes import ArmRole, Route
from registry.listen import Listener
from registry.tables.nodes import AppliedRow
from registry.tables.releases import RollbackNodeRow
from tests.registry.conftest import Registry
from tests.registry.nodes.conftest import MakeAgent
from tests.registry.nodes.world import World

pytestmark = pytest.mark.timeout(60)


async def routed(world: World) -> tuple[str, str, Route]:
    arm, deployment = await world.arm(1), await world.deployment()
    return deployment, arm, await world.route(deployment, (arm, ArmRole.STABLE, 10_000))


async def applied_row(world: World) -> AppliedRow:
    async with world.database.session() as session:
        return (await session.execute(select(AppliedRow))).scalar_one()


async def receipt(world: World, rollback: str) -> RollbackNodeRow:
    async with world.database.session() as session:
        return (
            await session.execute(select(RollbackNodeRow).where(RollbackNodeRow.rollback_id == rollback))
        ).scalar_one()


async def test_the_first_arrival_of_each_moment_counts(world: World, agent: MakeAgent) -> None:
    node = await agent()
    _, _, route = await routed(world)
    assert (await node.applied(route, "switched", local_ms=3)).status_code == 204
    row = await applied_row(world)
    assert row.switched_at is not None and row.drained_at is None
    assert row.switched_local_ms == 3
    await node.applied(route, "drained", local_ms=20)
    await node.applied(route, "switched", local_ms=99)
    again = await applied_row(world)
    assert again.switched_at == row.switched_at
    assert again.switched_local_ms == 3
    assert again.drained_at is not None and again.drained_at > row.switched_at
    assert again.drained_local_ms == 20


async def test_what_is_drained_has_switched(world: World, agent: MakeAgent) -> None:
    node = await agent()
    _, _, route = await routed(world)
    await node.applied(route, "drained")
    row = await applied_row(world)
    assert row.switched_at == row.drained_at is not None
    assert row.switched_local_ms is None


async def test_confirms_the_rollback_of_that_generation(world: World, agent: MakeAgent) -> None:
    node = await agent()
    deployment, arm, route = await routed(world)
    now = await world.rollback(deployment, route.fence.generation, arm, node.id)
    later = await world.rollback(deployment, route.fence.generation + 1, arm, node.id)
    await node.applied(route, "switched")
    found = await receipt(world, now)
    assert found.switched_at is not None and found.drained_at is None
    assert (await receipt(world, later)).switched_at is None
    await node.applied(route, "drained")
    again = await receipt(world, now)
    assert again.switched_at == found.switched_at
    assert again.drained_at is not None


async def test_a_later_generation_confirms_an_earlier_rollback(world: World, agent: MakeAgent) -> None:
    node = await agent()
    deployment, arm, route = await routed(world)
    rollback = await world.rollback(deployment, route.fence.generation, arm, node.id)
    newer = await world.route(deployment, (arm, ArmRole.STABLE, 10_000))
    await node.applied(newer, "switched")
    assert (await receipt(world, rollback)).switched_at is not None


async def test_waiting_receipts_are_woken_in_every_process(
    world: World, agent: MakeAgent, registry: Registry
) -> None:
    node = await agent()
    deployment, _, route = await routed(world)
    other_process = Listener(registry.settings.database_url.get_secret_value())
    listening = asyncio.create_task(other_process.run())
    try:
        with other_process.applied.register(deployment) as waiter:
            assert await waiter.wait(5), "the doubt of a new connection"
            waiting = asyncio.create_task(waiter.wait(4))
            await node.applied(route, "switched")
            assert await waiting
    finally:
        listening.cancel()
        await asyncio.gather(listening, return_exceptions=True)


async def test_refuses_what_is_no_fact_of_this_registry(world: World, agent: MakeAgent) -> None:
    node = await agent()
    _, _, route = await routed(world)
    foreign = route.model_copy(update={"fence": route.fence.model_copy(update={"registry_id": "reg_other"})})
    assert (await node.applied(foreign, "switched")).status_code == 409
    unknown = route.model_copy(update={"deployment": "prod/nothing"})
    assert (await node.applied(unknown, "switched")).status_code == 404
    await node.assignment()
    await node.report("first", seq=1)
    await node.report("second", seq=1)
    replaced = await node.applied(route, "switched", incarnation="first")
    assert replaced.status_code == 409
    async with world.database.session() as session:
        assert (await session.execute(select(AppliedRow))).first() is None


async def test_many_nodes_confirm_at_once(world: World, agent: MakeAgent, registry: Registry) -> None:
    nodes = [await agent(f"n{number}") for number in range(10)]
    deployment, arm, route = await routed(world)
    rollback = await world.rollback(deployment, route.fence.generation, arm, *(node.id for node in nodes))
    answers = await asyncio.gather(
        *(node.applied(route, moment) for node in nodes for moment in ("switched", "drained"))
    )
    assert {answer.status_code for answer in answers} == {204}
    url = registry.settings.database_url.get_secret_value()
    async with await psycopg.AsyncConnection.connect(url) as connection:
        found = await connection.execute(
            "SELECT count(*) FROM rollback_nodes WHERE rollback_id = %s AND drained_at >= switched_at",
            [rollback],
        )
        assert await found.fetchone() == (10,)
