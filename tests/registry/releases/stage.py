"""A deployment with versions to release, and waiting for what the controller does."""

import asyncio
from collections.abc import Callable

from registry.client import deployments, releases
from registry.contract.deployments import Deployment, DeploymentCreate, PlanStep, Policy
from registry.contract.releases import Promote, Release, ReleasePhase, Transition
from tests.registry import support
from tests.registry.conftest import Registry

REF = "prod/animals"
PLAN = (PlanStep(share=500, dwell_s=0), PlanStep(share=5_000, dwell_s=0), PlanStep(share=10_000, dwell_s=0))
POLICY = Policy(plan=PLAN, auto_advance=False, allow_unproven=True, node_timeout_s=2)


async def build_versions(registry: Registry) -> None:
    """Versions 1 to 3 of the model `animals`, each with a built engine."""
    for number in (1, 2, 3):
        await support.ready_version(registry, files={"model.onnx": f"model {number}".encode()})
        await support.built(registry, f"animals@{number}")


async def stage(registry: Registry, policy: Policy = POLICY) -> Deployment:
    """The deployment prod/animals of the model whose versions are built already."""
    body = DeploymentCreate(environment="prod", name="animals", model="animals", policy=policy)
    return await registry.client(deployments.create(body))


async def promote(registry: Registry, version: str, **wishes: object) -> Release:
    return await registry.client(releases.promote(REF, Promote(version=version, **wishes)))  # type: ignore[arg-type]


async def until(registry: Registry, number: int, holds: Callable[[Release], bool]) -> Release:
    """Waits for the controller, at most 20 s."""
    found = await registry.client(releases.get(REF, number))
    for _ in range(400):
        if holds(found):
            return found
        await asyncio.sleep(0.05)
        found = await registry.client(releases.get(REF, number))
    raise AssertionError(f"release {number} stays {found.phase}: {found.reason}")


async def in_phase(registry: Registry, number: int, phase: ReleasePhase) -> Release:
    return await until(registry, number, lambda release: release.phase is phase)


async def advance(registry: Registry, number: int) -> Release:
    return await registry.client(releases.advance(REF, number, Transition()))


async def released(registry: Registry, version: str) -> Release:
    """Promotes and advances to the good end."""
    release = await promote(registry, version)
    release = await until(registry, release.number, lambda found: found.phase is not ReleasePhase.PREPARING)
    while release.phase is ReleasePhase.RUNNING:
        release = await advance(registry, release.number)
    return await in_phase(registry, release.number, ReleasePhase.COMPLETED)
