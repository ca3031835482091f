"""What /metrics says of the whole registry is what its resources say."""

import re
from collections import Counter

from registry.client import nodes as node_calls
from registry.contract.nodes import DeploymentReport, SlotReport
from tests import patience
from tests.registry import support
from tests.registry.conftest import Registry
from tests.registry.nodes.agents import Agent, enrol


async def _gauges(registry: Registry, name: str, label: str) -> dict[str, float]:
    """Values by one label; zeros are left out."""
    async with patience.async_client() as http:
        text = (await http.get(f"{registry.url}/metrics")).text
    found = re.findall(rf'^{name}{{{label}="([^"]*)".*}} (\S+)$', text, re.MULTILINE)
    return {key: float(value) for key, value in found if float(value)}


async def test_nodes_are_counted_by_the_states_that_they_are_listed_with(registry: Registry) -> None:
    agents = [Agent(registry.url, await enrol(registry, f"n{at}")) for at in range(5)]
    _silent, ready, loading, leaving, doubled = agents
    slot = SlotReport(
        deployment="prod/x",
        arm=f"arm-{'0' * 64}",
        version="x@1",
        engine=None,
        phase="fetching",  # type: ignore[arg-type]
    )
    follows = DeploymentReport(deployment="prod/x", fence=None, switched=False, drained=False, ready=True)
    await ready.report(deployments=(follows,))
    await loading.report(slots=(slot,), deployments=(follows,))
    await leaving.report(deployments=(follows,))
    await registry.client(node_calls.drain(leaving.id))
    for seq in range(8):
        await doubled.report(incarnation=("first", "second")[seq % 2], seq=seq)
    page = await registry.client(node_calls.page())
    listed = Counter(node.state for node in page.items)
    assert listed == {"unknown": 1, "ready": 1, "preparing": 1, "draining": 1, "duplicate": 1}
    assert await _gauges(registry, "slipway_nodes", "state") == listed
    for agent in agents:
        await agent.http.aclose()


async def test_waiting_work_is_counted_by_kind(registry: Registry) -> None:
    for content in (b"one", b"two"):
        await support.sent(registry, content)
    assert await _gauges(registry, "slipway_tasks", "kind") == {"verify": 2}
    assert await _gauges(registry, "slipway_uploads", "phase") == {"verifying": 2}
