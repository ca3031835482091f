"""Reports: what is kept of them, what is ignored, and who suffers from whose mistakes."""

import asyncio
from typing import Any

import orjson
import pytest
from sqlalchemy import select

from registry.client import nodes as calls
from registry.contract.counters import CounterReport, SparseCells
from registry.contract.routes import ArmRole
from registry.tables.nodes import CounterRow, NodeRow
from tests.registry.conftest import Registry
from tests.registry.nodes.agents import Agent
from tests.registry.nodes.conftest import MakeAgent
from tests.registry.nodes.world import World, arm_name

pytestmark = pytest.mark.timeout(60)


def counted(n: int, seq: int, **key: Any) -> CounterReport:
    wanted = {"worker": 0, "deployment": "prod/files", "generation": 1, "arm": arm_name(1), **key}
    return CounterReport(seq=seq, fields={"assigned": SparseCells(at=(0,), n=(n,))}, **wanted)


async def node_row(world: World, node: Agent) -> NodeRow:
    async with world.database.session() as session:
        return (await session.execute(select(NodeRow).where(NodeRow.id == node.id))).scalar_one()


async def counters(world: World) -> list[CounterRow]:
    async with world.database.session() as session:
        return list((await session.execute(select(CounterRow))).scalars())


def assigned(row: CounterRow) -> int:
    return int(row.fields["assigned"]["n"][0])


async def test_keeps_the_newest_report_without_touching_the_revision(world: World, agent: MakeAgent) -> None:
    node = await agent()
    before = await node_row(world, node)
    assert (await node.report(says="first words")).status_code == 204
    assert (await node.report(says="second words", address="elsewhere:1")).status_code == 204
    row = await node_row(world, node)
    assert row.report is not None and row.report["says"] == "second words"
    assert "counters" not in row.report
    assert row.address == "elsewhere:1"
    assert row.seq == 2
    assert row.revision == before.revision
    assert row.last_seen_at is not None and row.reported_at is not None


async def test_a_late_report_changes_nothing(world: World, agent: MakeAgent) -> None:
    node = await agent()
    await node.report(seq=5, says="newer", counters=(counted(50, 5),))
    assert (await node.report(seq=4, says="older", counters=(counted(40, 4),))).status_code == 204
    assert (await node.report(seq=5, says="repeated", counters=(counted(51, 5),))).status_code == 204
    row = await node_row(world, node)
    assert row.report is not None and row.report["says"] == "newer"
    (counter,) = await counters(world)
    assert assigned(counter) == 50


async def test_a_new_incarnation_begins_its_seq_anew(world: World, agent: MakeAgent) -> None:
    node = await agent()
    await node.report("first", seq=900, says="old", counters=(counted(9, 1),))
    assert (await node.report("second", seq=0, says="new", counters=(counted(1, 1),))).status_code == 204
    row = await node_row(world, node)
    assert row.report is not None and row.report["says"] == "new"
    assert (row.incarnation, row.previous_incarnation, row.seq) == ("second", "first", 0)
    assert sorted(assigned(counter) for counter in await counters(world)) == [1, 9]


async def test_the_last_counters_of_a_dead_incarnation_are_taken(world: World, agent: MakeAgent) -> None:
    node = await agent()
    await node.report("first", seq=1, counters=(counted(9, 1),))
    await node.report("second", seq=1, says="alive")
    assert (
        await node.report("first", seq=2, says="last words", counters=(counted(12, 2),))
    ).status_code == 204
    (counter,) = await counters(world)
    assert assigned(counter) == 12
    row = await node_row(world, node)
    assert row.report is not None and row.report["says"] == "alive"


async def test_two_agents_of_one_identity_are_found_out(
    world: World, agent: MakeAgent, registry: Registry
) -> None:
    node = await agent()
    answers = []
    for turn in range(1, 6):
        await node.report("first", seq=turn)
        answers.append(await node.report("second", seq=turn))
    # The later start holds the identity; the earlier one is told.
    refused = await node.report("first", seq=9)
    assert refused.status_code == 409
    assert "started later" in refused.json()["detail"]
    assert answers[-1].status_code == 204
    assert (await registry.client(calls.get(node.id))).state == "duplicate"
    for turn in range(20, 40):
        await node.report("second", seq=turn)
    assert (await registry.client(calls.get(node.id))).state == "ready"


async def test_many_reports_at_once_are_all_kept(world: World, agent: MakeAgent) -> None:
    nodes = [await agent(f"n{number}") for number in range(12)]
    answers = await asyncio.gather(
        *(node.report(counters=(counted(number, 1),)) for number, node in enumerate(nodes))
    )
    assert {answer.status_code for answer in answers} == {204}
    found = {counter.node_id: assigned(counter) for counter in await counters(world)}
    assert found == {node.id: number for number, node in enumerate(nodes)}


async def test_a_report_that_can_not_be_stored_fails_alone(world: World, agent: MakeAgent) -> None:
    nodes = [await agent(f"n{number}") for number in range(6)]
    poison = nodes[3]
    answers = await asyncio.gather(
        *(
            node.report(says="a\x00b" if node is poison else "fine", counters=(counted(1, 1),))
            for node in nodes
        )
    )
    statuses = {node.id: answer.status_code for node, answer in zip(nodes, answers, strict=True)}
    assert statuses.pop(poison.id) == 422
    assert set(statuses.values()) == {204}
    assert {counter.node_id for counter in await counters(world)} == set(statuses)


@pytest.mark.parametrize(
    ("fields", "deployment"),
    [
        ({"assigned": {"at": [0, 1], "n": [1]}}, "prod/files"),
        ({"assigned": {"at": [0], "n": [-1]}}, "prod/files"),
        ({"assigned": {"at": [0, 0], "n": [1, 1]}}, "prod/files"),
        ({"assigned": {"at": [1 << 40], "n": [1]}}, "prod/files"),
        ({"assigned": {"at": [0], "n": [1]}}, "staging/files"),
    ],
)
async def test_refuses_counters_that_are_none(
    world: World, agent: MakeAgent, fields: dict[str, Any], deployment: str
) -> None:
    node = await agent()
    counter = {
        "worker": 0,
        "deployment": deployment,
        "generation": 1,
        "arm": arm_name(1),
        "seq": 1,
        "fields": fields,
    }
    body = orjson.dumps({"incarnation": "first", "seq": 1, "counters": [counter]})
    answer = await node.http.post("reports", content=body)
    assert answer.status_code == 422
    assert answer.json()["hint"]
    assert await counters(world) == []


async def test_a_body_that_is_no_report_names_the_field(agent: MakeAgent) -> None:
    answer = await (await agent()).http.post("reports", content=b'{"incarnation": "a"}')
    assert answer.status_code == 422
    assert answer.json()["errors"][0]["where"] == "body.seq"


async def test_silence_marks_the_next_counters_as_a_gap(world: World, agent: MakeAgent) -> None:
    node = await agent()
    await node.report(counters=(counted(1, 1),))
    await node.report(counters=(counted(2, 2),))
    (counter,) = await counters(world)
    assert not counter.gap
    assert counter.seen_at is None
    async with world.database.session() as session, session.begin():
        row = (await session.execute(select(NodeRow))).scalar_one()
        assert row.reported_at is not None
        row.reported_at = row.reported_at.replace(year=row.reported_at.year - 1)
    await node.report(counters=(counted(3, 3),))
    (counter,) = await counters(world)
    assert counter.gap


async def test_a_report_wakes_nobody(world: World, agent: MakeAgent) -> None:
    """Counters are no news for waiting nodes."""
    node, other = await agent("one"), await agent("other")
    arm = await world.arm(1)
    await world.route(await world.deployment(), (arm, ArmRole.STABLE, 10_000))
    etag = (await node.poll()).headers["etag"]
    waiting = asyncio.create_task(node.poll(wait=1, etag=etag))
    await other.report(says="anything")
    assert (await waiting).status_code == 304
