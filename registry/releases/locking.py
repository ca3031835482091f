"""Deployment first, then the release: the one order of locks."""

from registry.deployments import service as deployments
from registry.edge.unit import Unit
from registry.releases import repository
from registry.tables.deployments import DeploymentRow
from registry.tables.releases import ReleaseRow


async def locked(unit: Unit, release_id: str) -> tuple[DeploymentRow, ReleaseRow]:
    """Both rows, locked and as they are now."""
    found = await unit.session.get(ReleaseRow, release_id)
    assert found is not None
    deployment = await deployments.locked_by_id(unit.session, found.deployment_id)
    return deployment, await repository.lock(unit.session, release_id)
