"""Every count is taken exactly once, whatever repeats, overlaps or dies."""

import asyncio
from collections import Counter
from collections.abc import Iterable

import pytest
from sqlalchemy import select

from registry.contract.routes import ArmRole
from registry.database import Database
from registry.drift.cells import sparse
from registry.drift.loop import RollUps
from registry.drift.rollup import ArmDelta, pending, roll_up
from registry.tables.deployments import DeploymentRow
from registry.tables.nodes import CounterRow, CounterWindowRow
from registry.tables.releases import ReleaseRow
from tests.registry.drift.conftest import REF, Counting
from tests.registry.nodes.world import World

pytestmark = pytest.mark.timeout(60)


@pytest.fixture
async def arms(world: World) -> tuple[str, str]:
    """Generation 1: stable alone; generation 2: with a canary."""
    stable, canary = await world.arm(1), await world.arm(2)
    deployment = await world.deployment()
    await world.route(deployment, (stable, ArmRole.STABLE, 10_000))
    await world.route(deployment, (stable, ArmRole.STABLE, 9000), (canary, ArmRole.CANARY, 1000))
    return stable, canary


async def rolled(database: Database) -> list[ArmDelta]:
    async with database.session() as session, session.begin():
        return await roll_up(session, REF)


def assigned(deltas: Iterable[ArmDelta]) -> int:
    return sum(int(delta.fields["assigned"][0]) for delta in deltas)


async def in_windows(database: Database) -> Counter[tuple[int, str]]:
    total: Counter[tuple[int, str]] = Counter()
    async with database.session() as session:
        for row in (await session.execute(select(CounterWindowRow))).scalars():
            total[row.generation, row.arm] += sum(row.fields["assigned"]["n"])
    return total


async def test_takes_what_was_counted_since(
    database: Database, counting: Counting, arms: tuple[str, str]
) -> None:
    stable, canary = arms
    node = await counting.node("a")
    await counting.report(node, 2, stable, 1, {"assigned": {0: 90}, "total_us": {3: 80, 5: 10}})
    await counting.report(node, 2, canary, 1, {"assigned": {0: 10}})
    deltas = {delta.arm: delta for delta in await rolled(database)}
    assert sparse(deltas[stable].fields) == {
        "assigned": {"at": [0], "n": [90]},
        "total_us": {"at": [3, 5], "n": [80, 10]},
    }
    assert (deltas[stable].node, deltas[stable].generation, deltas[stable].gap) == (node, 2, False)
    assert deltas[stable].seconds == 0
    assert await rolled(database) == []

    await counting.report(node, 2, stable, 2, {"assigned": {0: 95}, "total_us": {3: 80, 5: 12, 9: 3}})
    (delta,) = await rolled(database)
    assert sparse(delta.fields) == {
        "assigned": {"at": [0], "n": [5]},
        "total_us": {"at": [5, 9], "n": [2, 3]},
    }
    assert delta.seconds > 0
    assert await in_windows(database) == {(2, stable): 95, (2, canary): 10}


async def test_a_repeated_or_late_report_adds_nothing(
    database: Database, counting: Counting, arms: tuple[str, str]
) -> None:
    node = await counting.node("a")
    for seq, n in ((1, 5), (2, 8), (2, 8), (1, 5)):
        await counting.report(node, 1, arms[0], seq, {"assigned": {0: n}})
    assert assigned(await rolled(database)) == 8
    await counting.report(node, 1, arms[0], 2, {"assigned": {0: 8}})
    assert await rolled(database) == []
    assert await in_windows(database) == {(1, arms[0]): 8}


async def test_workers_of_a_node_are_one_and_generations_are_not(
    database: Database, counting: Counting, arms: tuple[str, str]
) -> None:
    stable, _ = arms
    node = await counting.node("a")
    await counting.report(node, 1, stable, 1, {"assigned": {0: 1}}, worker=0)
    await counting.report(node, 1, stable, 1, {"assigned": {0: 2}}, worker=1, gap=True)
    await counting.report(node, 2, stable, 1, {"assigned": {0: 4}})
    found = {delta.generation: delta for delta in await rolled(database)}
    assert int(found[1].fields["assigned"][0]) == 3
    assert found[1].gap
    assert int(found[2].fields["assigned"][0]) == 4
    assert not found[2].gap


async def test_a_crash_before_the_commit_takes_nothing(
    database: Database, counting: Counting, arms: tuple[str, str]
) -> None:
    node = await counting.node("a")
    await counting.report(node, 1, arms[0], 1, {"assigned": {0: 7}})
    with pytest.raises(RuntimeError, match="crash"):
        async with database.session() as session, session.begin():
            assert assigned(await roll_up(session, REF)) == 7
            raise RuntimeError("crash")
    assert await in_windows(database) == {}
    assert assigned(await rolled(database)) == 7
    assert await in_windows(database) == {(1, arms[0]): 7}


async def test_two_controllers_take_every_count_once(
    database: Database, counting: Counting, arms: tuple[str, str]
) -> None:
    nodes = [await counting.node(f"n{number}") for number in range(8)]
    taken: list[ArmDelta] = []
    reporting = True

    async def report(node: str) -> None:
        for seq in range(1, 16):
            await counting.report(node, 2, arms[0], seq, {"assigned": {0: seq * 3}})
            await counting.report(node, 2, arms[1], seq, {"assigned": {0: seq}})

    async def control() -> None:
        while reporting:
            taken.extend(await rolled(database))

    controllers = [asyncio.create_task(control()) for _ in range(3)]
    await asyncio.gather(*(report(node) for node in nodes))
    reporting = False
    await asyncio.gather(*controllers)
    taken.extend(await rolled(database))
    assert assigned(delta for delta in taken if delta.arm == arms[0]) == 8 * 45
    assert assigned(delta for delta in taken if delta.arm == arms[1]) == 8 * 15
    assert await in_windows(database) == {(2, arms[0]): 8 * 45, (2, arms[1]): 8 * 15}


async def test_what_another_roll_up_holds_is_not_waited_for(
    database: Database, counting: Counting, arms: tuple[str, str]
) -> None:
    node = await counting.node("a")
    await counting.report(node, 1, arms[0], 1, {"assigned": {0: 7}})
    async with database.session() as session, session.begin():
        assert assigned(await roll_up(session, REF)) == 7
        assert await asyncio.wait_for(rolled(database), 5) == []


async def test_an_unknown_generation_waits_for_its_route(
    database: Database, counting: Counting, arms: tuple[str, str]
) -> None:
    node = await counting.node("a")
    await counting.report(node, 99, arms[0], 1, {"assigned": {0: 7}})
    assert await rolled(database) == []
    async with database.session() as session:
        assert (await session.execute(select(CounterRow.seen_seq))).scalar_one() == -1


async def test_fields_that_the_route_does_not_count_are_left_out(
    database: Database, counting: Counting, arms: tuple[str, str]
) -> None:
    node = await counting.node("a")
    fields = {"assigned": {0: 7, 9: 1}, "observable.nothing": {0: 3}, "observable.label": {2: 5, 3: 4}}
    await counting.report(node, 1, arms[0], 1, fields)
    (delta,) = await rolled(database)
    assert sparse(delta.fields) == {
        "assigned": {"at": [0], "n": [7]},
        "observable.label": {"at": [2], "n": [5]},
    }


async def test_the_loop_leaves_running_releases_to_their_judge(
    database: Database, counting: Counting, arms: tuple[str, str], world: World
) -> None:
    node = await counting.node("a")
    await counting.report(node, 2, arms[0], 1, {"assigned": {0: 7}})
    await world.release(await deployment_id(world), arms[1])
    async with database.session() as session, session.begin():
        (await session.execute(select(ReleaseRow))).scalar_one().phase = "running"
    loop = RollUps(database, 1)
    await loop.look()
    async with database.session() as session:
        assert await pending(session, judged=True) == [REF]
        assert await pending(session, judged=False) == []
    async with database.session() as session, session.begin():
        (await session.execute(select(ReleaseRow))).scalar_one().phase = "completed"
    await loop.look()
    assert await in_windows(database) == {(2, arms[0]): 7}


async def deployment_id(world: World) -> str:
    async with world.database.session() as session:
        return (await session.execute(select(DeploymentRow.id))).scalar_one()
