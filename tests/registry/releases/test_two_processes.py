"""Two registry processes on one database, told the same: it is done once."""

from datetime import UTC, datetime

import httpx

from registry.client import AsyncClient, deployments, releases
from registry.contract.nodes import Override
from registry.contract.releases import RollBack
from tests.registry.conftest import ADMIN, Registry, serving
from tests.registry.releases.fleet import fleet
from tests.registry.releases.stage import REF, released, stage


async def test_a_direct_rollback_is_settled_once(registry: Registry) -> None:
    """Its node may report to one process now and to the other one next."""
    await stage(registry)
    async with fleet(registry, size=1) as nodes:
        for version in ("animals@1", "animals@2"):
            await released(registry, version)
        agent = nodes[0].agent
        before = await registry.client(deployments.get(REF))
    assert before.requested is not None
    assert before.last_good is not None
    override = Override(
        id="ovr_1",
        deployment=REF,
        base=before.requested.fence,
        to=before.last_good.id,
        at=datetime.now(UTC),
        by="ann",
    )
    async with serving(registry.settings) as other:
        for url in (registry.url, other):
            headers = {"authorization": f"Bearer {agent.token}"}
            at = f"{url}/v1/nodes/{agent.id}/"
            async with httpx.AsyncClient(base_url=at, headers=headers, timeout=20, trust_env=False) as http:
                agent.http = http
                assert (await agent.report(overrides=(override,))).status_code == 204
        client = AsyncClient(other, ADMIN)
        after = await client(deployments.get(REF))
        routes = (await client(deployments.routes(REF))).items
        await client(releases.roll_back(REF, RollBack(to="animals@2")))
        later = (await client(deployments.get(REF))).requested
        await client.close()
    assert after.stable == before.last_good
    settled = [route.fence.generation for route in routes if override.id in route.resolves]
    assert settled == [before.requested.fence.generation + 2], "the rollback, and the route that settles it"
    assert later is not None
    assert override.id in later.resolves, "a node that comes back late must follow what is newest then"
