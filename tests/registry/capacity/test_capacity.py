"""Capacity over HTTP and on the command line, and the warning of a release that is too big for its pool."""

import pytest

from registry.client import ApiError, capacity, deployments, releases
from registry.contract.deployments import CapacityNeed, DeploymentCreate, Policy
from registry.contract.releases import Promote
from registry.contract.tokens import Role
from tests.registry import support
from tests.registry.capacity.test_planning import engine
from tests.registry.command import slipway
from tests.registry.conftest import Registry
from tests.registry.releases.fleet import fleet

REF = "prod/animals"


async def staged(registry: Registry, need: CapacityNeed | None = None) -> None:
    await support.ready_version(registry)
    await support.built(registry, "animals@1", bench=engine().bench)
    policy = Policy(allow_unproven=True, capacity=need)
    body = DeploymentCreate(environment="prod", name="animals", model="animals", policy=policy)
    await registry.client(deployments.create(body))


async def test_people_ask_what_a_peak_needs(registry: Registry) -> None:
    await staged(registry)
    with pytest.raises(ApiError, match="serves nothing yet"):
        await registry.client(capacity.capacity(REF, 100, 20))
    async with fleet(registry) as nodes:
        found = await registry.client(capacity.capacity(REF, 100, 20, "animals@1", 1.8))
    (target,) = found.targets
    assert (found.nodes, target.nodes, target.nodes_needed) == (len(nodes), len(nodes), 1)
    assert found.enough
    assert found.headroom == pytest.approx(len(nodes) * target.rps_per_node / 100 - 1)
    assert target.cost_per_million == pytest.approx(1.8 / 360_000 * 1e6)
    assert f"carry {found.pool_rps:.0f} a second" in found.says
    out, err = await slipway(
        registry, "capacity", REF, "--peak", "1000000", "--p99", "20", "--version", "animals@1"
    )
    assert "animals@1@fp32 on prod/animals: 1e+06 requests a second within 20 ms needs" in out
    assert "the pool is too small" in err


async def test_what_can_not_be_answered_says_why(registry: Registry) -> None:
    await staged(registry)
    await support.make_model(registry, "plants")
    for version, why in (
        ("plants@1", "serves animals"),
        ("animals@1@int8-dynamic", "no engine of precision"),
    ):
        with pytest.raises(ApiError, match=why):
            await registry.client(capacity.capacity(REF, 100, 20, version))
    with pytest.raises(ApiError, match="is no deployment"):
        await registry.client(capacity.capacity("animals", 100, 20))
    stranger = await registry.as_role(Role.VIEWER, models=("plants",))
    with pytest.raises(ApiError) as hidden:
        await stranger(capacity.capacity(REF, 100, 20, "animals@1"))
    assert hidden.value.status == 404


async def test_a_release_that_needs_more_than_the_pool_has_starts_with_a_warning(registry: Registry) -> None:
    await staged(registry, CapacityNeed(peak_rps=1e6, p99_ms=20))
    async with fleet(registry):
        release = await registry.client(releases.promote(REF, Promote(version="animals@1")))
    guard = next(guard for guard in release.guards if guard.name == "capacity")
    assert (guard.outcome, guard.warning) == ("passed", True)
    assert guard.reason.startswith("warning: 1e+06 requests a second within 20 ms needs")
