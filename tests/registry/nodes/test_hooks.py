"""What follows from a report in other rooms: break-glass overrides, and fences that the registry lost."""

import asyncio
from collections.abc import AsyncIterator
from dataclasses import dataclass, field

import pytest
from sqlalchemy.ext.asyncio import AsyncSession

from registry.contract.nodes import DeploymentReport, Enrol, Override, Report
from registry.contract.routes import ArmRole, Fence, Route
from registry.database import Database
from registry.identity import Identity, establish
from registry.listen import Listener
from registry.nodes import room
from registry.nodes.fragments import NodeFacts
from registry.nodes.intake import Hooks
from registry.nodes.room import NodeRoom
from registry.settings import Settings
from registry.tables.nodes import NodeRow
from tests.registry.nodes.agents import HARDWARE
from tests.registry.nodes.world import World, arm_name

pytestmark = pytest.mark.timeout(60)
REF = "prod/files"


@dataclass
class Followed:
    """Records what it was called with; fails as often as told."""

    failures: int = 0
    overrides: list[Override] = field(default_factory=list)
    fences: list[DeploymentReport] = field(default_factory=list)

    async def override(self, session: AsyncSession, node: NodeFacts, override: Override) -> None:
        assert session.in_transaction()
        self.overrides.append(override)
        if len(self.overrides) <= self.failures:
            raise RuntimeError("not now")

    async def fence(self, session: AsyncSession, node: NodeFacts, report: DeploymentReport) -> None:
        self.fences.append(report)


@dataclass
class Rig:
    room: NodeRoom
    world: World
    followed: Followed
    identity: Identity

    async def node(self) -> NodeFacts:
        wish = Enrol(name="n", targets=("ort.cpu",), hardware=HARDWARE, address="n:1")
        async with self.world.database.session() as session, session.begin():
            session.add(
                NodeRow(
                    id="nod_n",
                    name=wish.name,
                    environment="prod",
                    targets=list(wish.targets),
                    labels={},
                    hardware=wish.hardware.model_dump(mode="json"),
                    address=wish.address,
                )
            )
        return await self.room.directory.node("nod_n")

    def fence(self, generation: int, timeline: int = 1, registry: str | None = None) -> Fence:
        return Fence(
            registry_id=registry or self.identity.registry_id, timeline=timeline, generation=generation
        )


@pytest.fixture
async def rig(settings: Settings) -> AsyncIterator[Rig]:
    database = Database(settings)
    identity = await establish(database, settings)
    listener = Listener(settings.database_url.get_secret_value())
    followed = Followed()
    hooks = Hooks(followed.override, followed.fence)
    async with room.running(database, identity, listener, hooks) as made:
        listening = asyncio.create_task(listener.run())
        yield Rig(made, World(database), followed, identity)
        listening.cancel()
        await asyncio.gather(listening, return_exceptions=True)
    await database.close()


async def routed(rig: Rig, times: int = 1) -> Route:
    arm = await rig.world.arm(1)
    deployment = await rig.world.deployment()
    for _ in range(times):
        route = await rig.world.route(deployment, (arm, ArmRole.STABLE, 10_000))
    return route


def override(fence: Fence) -> Override:
    return Override.model_validate(
        {
            "id": "ovr_1",
            "deployment": REF,
            "base": fence,
            "to": arm_name(1),
            "at": "2026-01-01T00:00:00Z",
            "by": "someone",
        }
    )


async def test_an_override_is_followed_once(rig: Rig) -> None:
    node = await rig.node()
    report = Report(incarnation="a", seq=1, overrides=(override(rig.fence(1)),))
    await rig.room.intake.report(node, report)
    await rig.room.intake.report(node, report.model_copy(update={"seq": 2}))
    assert rig.followed.overrides == [override(rig.fence(1))]


async def test_what_could_not_be_followed_is_tried_with_the_next_report(rig: Rig) -> None:
    rig.followed.failures = 1
    node = await rig.node()
    report = Report(incarnation="a", seq=1, overrides=(override(rig.fence(1)),))
    await rig.room.intake.report(node, report)
    await rig.room.intake.report(node, report.model_copy(update={"seq": 2}))
    await rig.room.intake.report(node, report.model_copy(update={"seq": 3}))
    assert len(rig.followed.overrides) == 2


async def test_a_fence_above_the_registrys_own_is_told(rig: Rig) -> None:
    node = await rig.node()
    route = await routed(rig, times=3)

    async def follows(seq: int, fence: Fence) -> int:
        told = DeploymentReport(deployment=REF, fence=fence, switched=True, drained=True)
        await rig.room.intake.report(node, Report(incarnation="a", seq=seq, deployments=(told,)))
        return len(rig.followed.fences)

    assert route.fence.generation == 3
    assert await follows(1, rig.fence(2)) == 0
    assert await follows(2, rig.fence(3)) == 0
    assert await follows(3, rig.fence(9, registry="reg_other")) == 0
    assert await follows(4, rig.fence(9)) == 1
    assert await follows(5, rig.fence(9)) == 1
    assert await follows(6, rig.fence(2, timeline=2)) == 2
