"""What a deployment's nodes observe, and which of them are published."""

import pytest
from sqlalchemy import select

from registry.client import deployments as calls
from registry.client import nodes as node_calls
from registry.contract.nodes import DeploymentReport
from registry.contract.routes import ArmRole
from registry.tables.nodes import NodeRow
from tests.registry.conftest import Registry
from tests.registry.nodes.conftest import MakeAgent
from tests.registry.nodes.world import World

pytestmark = pytest.mark.timeout(60)
REF = "prod/files"


async def test_observed_is_what_nodes_report_not_what_was_requested(
    registry: Registry, world: World, agent: MakeAgent
) -> None:
    first, second = await agent("a"), await agent("b")
    stable, canary = await world.arm(1), await world.arm(2)
    deployment = await world.deployment()
    old = await world.route(deployment, (stable, ArmRole.STABLE, 10_000))
    new = await world.route(deployment, (stable, ArmRole.STABLE, 9000), (canary, ArmRole.CANARY, 1000))
    await first.serves(new, stable, canary)
    await first.applied(new, "switched")
    await second.serves(old, stable)

    status = await registry.client(calls.status(REF))

    assert status.generation == 2
    assert not status.converged
    assert status.observed == {stable: 9500, canary: 500}
    at_first, at_second = status.nodes
    assert (at_first.name, at_first.fresh, at_first.published) == ("a", True, True)
    assert at_first.applied == new.fence and at_second.applied == old.fence
    assert at_first.switched_at is not None and at_first.drained_at is None
    assert at_second.switched_at is None
    assert {(arm.arm, arm.role, arm.share, arm.phase) for arm in at_first.arms} == {
        (stable, ArmRole.STABLE, 9000, "ready"),
        (canary, ArmRole.CANARY, 1000, "ready"),
    }

    await second.serves(new, stable, canary)
    again = await registry.client(calls.status(REF))
    assert again.converged
    assert again.observed == {stable: 9000, canary: 1000}


async def test_a_silent_node_is_unknown_and_counts_for_nothing(
    registry: Registry, world: World, agent: MakeAgent
) -> None:
    talking, silent = await agent("talking"), await agent("silent")
    stable = await world.arm(1)
    route = await world.route(await world.deployment(), (stable, ArmRole.STABLE, 10_000))
    await talking.serves(route, stable)
    await silent.serves(route.model_copy(update={"arms": ()}), stable)
    async with world.database.session() as session, session.begin():
        row = (await session.execute(select(NodeRow).where(NodeRow.id == silent.id))).scalar_one()
        assert row.reported_at is not None
        row.reported_at = row.reported_at.replace(year=2020)
    status = await registry.client(calls.status(REF))
    assert [(node.name, node.fresh, node.published) for node in status.nodes] == [
        ("silent", False, False),
        ("talking", True, True),
    ]
    assert not status.converged
    assert status.observed == {stable: 10_000}


async def test_publishes_nodes_that_can_answer_every_arm(
    registry: Registry, world: World, agent: MakeAgent
) -> None:
    names = ("good", "left-out", "not-ready", "draining", "elsewhere")
    nodes = {
        name: await agent(name, **({"zone": "b"} if name == "elsewhere" else {"zone": "a"})) for name in names
    }
    stable = await world.arm(1)
    deployment = await world.deployment(selector={"zone": "a"})
    route = await world.route(deployment, (stable, ArmRole.STABLE, 10_000))
    await world.release(deployment, stable, left_out=[nodes["left-out"].id])
    for node in nodes.values():
        await node.serves(route, stable)
    await nodes["not-ready"].report(
        deployments=(DeploymentReport(deployment=REF, fence=None, switched=False, drained=False),)
    )
    await registry.client(node_calls.drain(nodes["draining"].id))

    (published,) = await registry.client(calls.nodes(REF))

    assert published.targets == ("good:8000",)
    assert published.labels == {"deployment": REF, "node": nodes["good"].id, "node_name": "good"}


async def test_a_deployment_without_nodes_has_not_converged(registry: Registry, world: World) -> None:
    stable = await world.arm(1)
    await world.route(await world.deployment(), (stable, ArmRole.STABLE, 10_000))
    status = await registry.client(calls.status(REF))
    assert (status.nodes, status.converged, status.observed) == ((), False, {})
    assert await registry.client(calls.nodes(REF)) == ()
