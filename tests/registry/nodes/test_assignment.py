"""The long poll: who is told what, when, and at what price."""

import asyncio
import time

import httpx
import psycopg
import pytest

from registry.client import nodes as calls
from registry.contract.nodes import Assignment
from registry.contract.pipeline import Padding, PipelineSpec, Tokenise
from registry.contract.routes import ArmRole
from registry.contract.versions import FileEntry
from registry.settings import Settings
from tests.registry.conftest import Registry
from tests.registry.nodes.conftest import MakeAgent
from tests.registry.nodes.world import CONTRACT, EDGES, World

pytestmark = pytest.mark.timeout(60)


async def test_tells_a_node_everything_of_its_deployments(world: World, agent: MakeAgent) -> None:
    node = await agent("n1", targets=("ort.cuda", "ort.cpu"), zone="a")
    stable = await world.arm(1, ["ort.cpu", "openvino.cpu"])
    canary = await world.arm(2, ["ort.cpu", "ort.cuda"])
    route = await world.route(
        await world.deployment(selector={"zone": "a"}),
        (stable, ArmRole.STABLE, 9500),
        (canary, ArmRole.CANARY, 500),
        keep=[stable, canary],
    )
    await world.route(await world.deployment("elsewhere", "staging"), (stable, ArmRole.STABLE, 10_000))
    other_zone = await world.deployment("other-zone", selector={"zone": "b"})
    await world.route(other_zone, (stable, ArmRole.STABLE, 10_000))
    await world.deployment("without-a-route")

    assignment = await node.assignment()

    assert assignment.node == node.id
    assert assignment.report_every_s == 2
    (fragment,) = assignment.fragments
    assert fragment.deployment == "prod/files"
    assert fragment.fence == route.fence
    assert fragment.edges == EDGES
    assert fragment.drain_limit_s == 7
    assert fragment.published
    assert fragment.keep == (stable, canary)
    first, second = fragment.arms
    assert (first.version, first.role, first.share) == ("filetype@1@fp32", ArmRole.STABLE, 9500)
    assert first.contract == CONTRACT
    assert first.engine is not None and first.engine.target == "ort.cpu"
    assert (first.engine.size, first.engine.memory_bytes) == (1001, 5001)
    assert second.engine is not None and second.engine.target == "ort.cuda"


async def test_names_the_files_that_a_pipeline_reads(world: World, agent: MakeAgent) -> None:
    node = await agent("n1")
    files = tuple(
        FileEntry(path=path, digest=f"sha256-{at:064x}", size=at)
        for at, path in enumerate(("model.onnx", "text/tokenizer.json", "golden.jsonl"))
    )
    step = Tokenise(file="text/tokenizer.json", ids="x", max_length=8, padding=Padding(masking="id"))
    contract = CONTRACT.model_copy(update={"pipeline": PipelineSpec(pre=(step,))})
    arm = await world.arm(1, contract=contract, files=files)
    await world.route(await world.deployment(), (arm, ArmRole.STABLE, 10_000))
    (assigned,) = (await node.assignment()).fragments[0].arms
    assert assigned.files == files[1:2]


async def test_says_why_no_engine_fits(world: World, agent: MakeAgent) -> None:
    node = await agent("n1", targets=("tensorrt.sm_90",))
    arm = await world.arm(1, ["ort.cpu"])
    await world.route(await world.deployment(), (arm, ArmRole.STABLE, 10_000))
    assigned = (await node.assignment()).fragments[0].arms[0]
    assert assigned.engine is None
    assert "ort.cpu" in assigned.reason and "tensorrt.sm_90" in assigned.reason


async def test_kept_arms_that_are_not_routed_are_told_as_standby(world: World, agent: MakeAgent) -> None:
    node = await agent()
    stable, old = await world.arm(2), await world.arm(1)
    await world.route(await world.deployment(), (stable, ArmRole.STABLE, 10_000), keep=[stable, old])
    arms = (await node.assignment()).fragments[0].arms
    assert [(arm.arm, arm.role, arm.share) for arm in arms] == [
        (stable, ArmRole.STABLE, 10_000),
        (old, ArmRole.STANDBY, 0),
    ]


async def test_an_etag_that_is_known_waits_and_then_answers_304(world: World, agent: MakeAgent) -> None:
    node = await agent()
    first = await node.poll()
    again = await node.poll(wait=0.2, etag=first.headers["etag"])
    assert again.status_code == 304
    assert again.headers["etag"] == first.headers["etag"]
    assert again.content == b""


async def test_a_notice_wakes_a_waiting_node_within_a_second(world: World, agent: MakeAgent) -> None:
    node = await agent()
    arm, deployment = await world.arm(1), await world.deployment()
    first = await node.poll()
    waiting = asyncio.create_task(node.poll(wait=20, etag=first.headers["etag"]))
    await asyncio.sleep(0.3)
    began = time.monotonic()
    route = await world.route(deployment, (arm, ArmRole.STABLE, 10_000))
    answer = await waiting
    assert time.monotonic() - began < 1
    assert Assignment.model_validate_json(answer.content).fragments[0].fence == route.fence
    assert answer.headers["etag"] != first.headers["etag"]


async def test_a_lost_notice_costs_seconds_not_the_change(world: World, agent: MakeAgent) -> None:
    node = await agent()
    arm, deployment = await world.arm(1), await world.deployment()
    first = await node.poll()
    waiting = asyncio.create_task(node.poll(wait=20, etag=first.headers["etag"]))
    await asyncio.sleep(0.2)
    route = await world.route(deployment, (arm, ArmRole.STABLE, 10_000), notify=False)
    answer = await asyncio.wait_for(waiting, 12)
    assert Assignment.model_validate_json(answer.content).fragments[0].fence == route.fence


async def test_listening_goes_on_after_the_connection_was_cut(
    world: World, agent: MakeAgent, registry: Registry
) -> None:
    node = await agent()
    arm, deployment = await world.arm(1), await world.deployment()
    first = await node.poll()
    waiting = asyncio.create_task(node.poll(wait=20, etag=first.headers["etag"]))
    await asyncio.sleep(0.2)
    url = registry.settings.database_url.get_secret_value()
    async with await psycopg.AsyncConnection.connect(url, autocommit=True) as admin:
        cut = await admin.execute(
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity "
            "WHERE datname = current_database() AND (query LIKE 'LISTEN%' OR query = 'SELECT 1')"
        )
        assert cut.rowcount >= 1
    await world.route(deployment, (arm, ArmRole.STABLE, 10_000), notify=False)
    # A new connection doubts everything, so the silent change is found by it.
    answer = await asyncio.wait_for(waiting, 4)
    etag = answer.headers["etag"]
    waiting = asyncio.create_task(node.poll(wait=20, etag=etag))
    await asyncio.sleep(0.2)
    await world.route(deployment, (arm, ArmRole.STABLE, 10_000))
    assert (await asyncio.wait_for(waiting, 2)).status_code == 200


class TestSmallPool:
    """A pool of two connections, as many waiting nodes as one likes."""

    @pytest.fixture
    def settings(self, settings: Settings) -> Settings:
        return settings.model_copy(update={"database_pool": 2})

    async def test_waiters_hold_no_session(self, world: World, agent: MakeAgent, registry: Registry) -> None:
        nodes = [await agent(f"n{number}") for number in range(20)]
        arm, deployment = await world.arm(1), await world.deployment()
        etags = [(await node.poll()).headers["etag"] for node in nodes]
        waiting = [
            asyncio.create_task(node.poll(wait=20, etag=etag))
            for node, etag in zip(nodes, etags, strict=True)
        ]
        await asyncio.sleep(0.5)
        assert len((await registry.client(calls.page())).items) == 20
        route = await world.route(deployment, (arm, ArmRole.STABLE, 10_000))
        answers = await asyncio.wait_for(asyncio.gather(*waiting), 5)
        assert {answer.status_code for answer in answers} == {200}
        assert {
            Assignment.model_validate_json(answer.content).fragments[0].fence.generation for answer in answers
        } == {route.fence.generation}


async def test_a_node_that_a_release_goes_without_is_not_published(world: World, agent: MakeAgent) -> None:
    inside, outside = await agent("in"), await agent("out")
    arm, deployment = await world.arm(1), await world.deployment()
    await world.release(deployment, arm, left_out=[outside.id])
    await world.route(deployment, (arm, ArmRole.STABLE, 10_000))
    assert (await inside.assignment()).fragments[0].published
    assert not (await outside.assignment()).fragments[0].published


async def test_draining_wakes_the_node(agent: MakeAgent, registry: Registry) -> None:
    node = await agent()
    first = await node.poll()
    waiting = asyncio.create_task(node.poll(wait=20, etag=first.headers["etag"]))
    await asyncio.sleep(0.2)
    drained = await registry.client(calls.drain(node.id))
    assert drained.draining
    answer = await asyncio.wait_for(waiting, 2)
    assert Assignment.model_validate_json(answer.content).draining
    assert not (await registry.client(calls.undrain(node.id))).draining


async def test_a_caller_that_goes_away_leaves_no_waiter(agent: MakeAgent, registry: Registry) -> None:
    node = await agent()
    etag = (await node.poll()).headers["etag"]
    with pytest.raises(httpx.ReadTimeout):
        await node.http.get("assignment", params={"wait": 20}, headers={"if-none-match": etag}, timeout=0.3)
    assert (await node.poll()).status_code == 200


@pytest.mark.parametrize("wait", ["-1", "31", "nan", "soon"])
async def test_refuses_a_wait_that_is_none(agent: MakeAgent, wait: str) -> None:
    answer = await (await agent()).http.get("assignment", params={"wait": wait})
    assert answer.status_code == 422
    assert answer.json()["hint"]


async def test_tokens_are_checked_on_the_raw_routes(
    agent: MakeAgent,
) -> None:
    one, other = await agent("one"), await agent("other")
    for headers, status in (
        ({"authorization": ""}, 401),
        ({"authorization": "Bearer nonsense"}, 401),
        ({"authorization": f"Bearer {other.token}"}, 403),
    ):
        answer = await one.http.get("assignment", headers=headers)
        assert answer.status_code == status
        assert answer.headers["content-type"] == "application/problem+json"
        assert answer.json()["hint"] and answer.json()["request_id"]
    assert (await one.http.put("assignment")).status_code == 405
