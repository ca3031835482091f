"""Enrolment, the fleet's list, and what is known of a node."""

import pytest
from sqlalchemy import select, update

from registry.client import ApiError
from registry.client import nodes as calls
from registry.contract.nodes import DeploymentReport, Enrol, EnrolmentCreate
from registry.contract.tokens import Role
from registry.tables.access import EnrolmentRow
from registry.tables.journal import AuditRow
from registry.tables.nodes import NodeRow
from tests.registry.command import slipway
from tests.registry.conftest import Registry
from tests.registry.nodes.agents import HARDWARE, enrol
from tests.registry.nodes.conftest import MakeAgent
from tests.registry.nodes.world import World

pytestmark = pytest.mark.timeout(60)


def wish(name: str = "n1") -> Enrol:
    return Enrol(name=name, targets=("ort.cpu",), hardware=HARDWARE, address="n1:8000")


async def test_a_one_time_token_makes_one_node(registry: Registry, world: World) -> None:
    invited = await registry.client(calls.invite(EnrolmentCreate(environment="prod")))
    made = await registry.with_token(invited.secret)(calls.enrol(wish()))
    assert made.environment == "prod"
    node = await registry.with_token(made.token)(calls.get(made.node))
    assert (node.name, node.state, node.targets) == ("n1", "unknown", ("ort.cpu",))
    with pytest.raises(ApiError) as refused:
        await registry.with_token(invited.secret)(calls.enrol(wish("n2")))
    assert refused.value.status == 401 and "was used" in refused.value.problem.detail
    async with world.database.session() as session:
        actions = (await session.execute(select(AuditRow.action).order_by(AuditRow.id))).scalars().all()
    assert [action for action in actions if action.startswith("node.")] == ["node.invite", "node.enrol"]


async def test_refuses_one_time_tokens_that_are_none(registry: Registry, world: World) -> None:
    with pytest.raises(ApiError) as unknown:
        await registry.with_token("nonsense")(calls.enrol(wish()))
    assert unknown.value.status == 401
    invited = await registry.client(calls.invite(EnrolmentCreate(environment="prod")))
    async with world.database.session() as session, session.begin():
        await session.execute(update(EnrolmentRow).values(expires_at=EnrolmentRow.created_at))
    with pytest.raises(ApiError) as expired:
        await registry.with_token(invited.secret)(calls.enrol(wish()))
    assert expired.value.status == 401 and "expired" in expired.value.problem.detail


async def test_pending_invitations_are_listed_and_taken_back(registry: Registry) -> None:
    made = [
        await registry.client(calls.invite(EnrolmentCreate(environment=environment)))
        for environment in ("prod", "qa", "prod")
    ]
    page = await registry.client(calls.invitations(limit=2))
    rest = await registry.client(calls.invitations(page_token=page.next_page_token))
    listed = (*page.items, *rest.items)
    assert {found.id for found in listed} == {each.id for each in made}
    assert (listed[0].created_by, rest.next_page_token) == ("admin", None)
    in_qa = await registry.as_role(Role.RELEASER, environments=("qa",))
    assert [found.id for found in (await in_qa(calls.invitations())).items] == [made[1].id]
    with pytest.raises(ApiError) as hidden:
        await in_qa(calls.uninvite(made[0].id))
    assert hidden.value.status == 404

    await registry.client(calls.uninvite(made[0].id))
    with pytest.raises(ApiError) as refused:
        await registry.with_token(made[0].secret)(calls.enrol(wish()))
    assert refused.value.status == 401
    await registry.with_token(made[2].secret)(calls.enrol(wish()))
    with pytest.raises(ApiError, match="there is no pending invitation") as used:
        await registry.client(calls.uninvite(made[2].id))
    assert used.value.status == 404
    assert [found.id for found in (await registry.client(calls.invitations())).items] == [made[1].id]
    table, _ = await slipway(registry, "node", "invitations")
    assert made[1].id in table and made[1].secret not in table
    await slipway(registry, "node", "uninvite", made[1].id)
    assert (await registry.client(calls.invitations())).items == ()


async def test_only_releasers_invite(registry: Registry) -> None:
    viewer = await registry.as_role(Role.VIEWER)
    with pytest.raises(ApiError) as refused:
        await viewer(calls.invite(EnrolmentCreate(environment="prod")))
    assert refused.value.status == 403
    scoped = await registry.as_role(Role.RELEASER, environments=("staging",))
    with pytest.raises(ApiError) as outside:
        await scoped(calls.invite(EnrolmentCreate(environment="prod")))
    assert outside.value.status == 403


async def test_a_name_in_contact_is_taken_and_the_token_stays_good(
    registry: Registry, agent: MakeAgent
) -> None:
    node = await agent("n1")
    await node.report()
    invited = await registry.client(calls.invite(EnrolmentCreate(environment="prod")))
    newcomer = registry.with_token(invited.secret)
    with pytest.raises(ApiError) as taken:
        await newcomer(calls.enrol(wish("n1")))
    assert taken.value.status == 409
    assert node.id in taken.value.problem.detail
    assert (await newcomer(calls.enrol(wish("n2")))).node != node.id


async def test_the_name_of_a_lost_node_is_taken_over(
    registry: Registry, agent: MakeAgent, world: World
) -> None:
    lost = await agent("n1")
    await lost.report()
    async with world.database.session() as session, session.begin():
        row = (await session.execute(select(NodeRow))).scalar_one()
        assert row.last_seen_at is not None
        row.last_seen_at = row.reported_at = row.last_seen_at.replace(year=2020)
    made = await enrol(registry, "n1")
    assert made.node == lost.id
    with pytest.raises(ApiError) as revoked:
        await registry.with_token(lost.token)(calls.get(lost.id))
    assert revoked.value.status == 401
    assert (await registry.with_token(made.token)(calls.get(made.node))).id == lost.id


async def test_a_node_sees_itself_alone(registry: Registry, agent: MakeAgent) -> None:
    one, other = await agent("one"), await agent("other")
    with pytest.raises(ApiError) as refused:
        await registry.with_token(one.token)(calls.get(other.id))
    assert refused.value.status == 403
    with pytest.raises(ApiError) as listing:
        await registry.with_token(one.token)(calls.page())
    assert listing.value.status == 403


async def test_lists_by_environment_and_page(registry: Registry, agent: MakeAgent) -> None:
    made = [
        await agent(name, environment=where) for name, where in (("a", "prod"), ("b", "prod"), ("c", "qa"))
    ]
    first = await registry.client(calls.page(limit=2))
    assert [node.id for node in first.items] == [made[0].id, made[1].id]
    rest = await registry.client(calls.page(page_token=first.next_page_token, limit=2))
    assert [node.id for node in rest.items] == [made[2].id]
    assert rest.next_page_token is None
    assert [node.name for node in (await registry.client(calls.page(environment="qa"))).items] == ["c"]
    scoped = await registry.as_role(Role.VIEWER, environments=("qa",))
    assert [node.name for node in (await scoped(calls.page())).items] == ["c"]


async def test_the_state_follows_the_newest_report(
    registry: Registry, agent: MakeAgent, world: World
) -> None:
    node = await agent()

    async def state() -> str:
        return (await registry.client(calls.get(node.id))).state

    assert await state() == "unknown"
    waiting = DeploymentReport(deployment="prod/files", fence=None, switched=False, drained=False)
    await node.report(deployments=(waiting,))
    assert await state() == "preparing"
    await node.report(deployments=(waiting.model_copy(update={"ready": True}),))
    assert await state() == "ready"
    await registry.client(calls.drain(node.id))
    assert await state() == "draining"
    async with world.database.session() as session, session.begin():
        row = (await session.execute(select(NodeRow))).scalar_one()
        assert row.reported_at is not None
        row.reported_at = row.reported_at.replace(year=2020)
    # Contact alone, without a report, does not make old news fresh.
    await node.assignment()
    assert await state() == "unknown"
