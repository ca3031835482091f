"""Use case of capacity: the benches of an arm's engines, and the nodes that would run them."""

import asyncio
from collections.abc import Sequence

from registry.builds import service as builds
from registry.capacity import planning
from registry.capacity.planning import Need
from registry.contract.capacity import Capacity
from registry.contract.engines import EngineReport
from registry.contract.identity import parse_version
from registry.deployments import service as deployments
from registry.deployments.arms import DEFAULT_PRECISION
from registry.edge.unit import Unit
from registry.errors import Conflict, Invalid, NotFound
from registry.models import service as models
from registry.nodes.pool import pool
from registry.tables.deployments import DeploymentRow


async def capacity(unit: Unit, ref: str, version: str | None, need: Need) -> Capacity:
    """Of the arm that serves, or of the engines of `version` (MODEL@NUMBER[@PRECISION]) that passed their
    gates. Raises NotFound, also outside the token's scope, Invalid, and Conflict without such an engine."""
    environment, slash, name = ref.partition("/")
    if not slash:
        raise Invalid(f"{ref!r} is no deployment", "write ENVIRONMENT/NAME, such as prod/sentiment")
    row = await deployments.row(unit.session, environment, name)
    if not unit.principal.sees(row.model, environment):
        raise NotFound(f"there is no deployment {ref} that you may see", "use a token whose scope has it")
    if version is not None:
        return await of_engines(unit, row, *await _candidate(unit, row, version), need)
    if row.stable_arm is None:
        raise Conflict(f"{row.ref} serves nothing yet", "name a version: version=MODEL@NUMBER")
    arm = (await deployments.arms(unit.session, {row.stable_arm}))[row.stable_arm]
    reports = await builds.reports_of(unit.session, arm)
    return await of_engines(unit, row, f"{arm.version}@{arm.precision}", reports, need)


async def of_engines(
    unit: Unit, row: DeploymentRow, version: str, reports: Sequence[EngineReport], need: Need
) -> Capacity:
    """What the deployment's pool would carry with these engines of `version` (MODEL@NUMBER@PRECISION)."""
    nodes = await pool(unit.session, row, unit.identity.timeline, unit.resources.settings.node_stale_s)
    listed = [node.targets for node in nodes if node.fresh and not node.draining]
    there = planning.targets_of_nodes(listed, reports)
    benched = sorted((report for report in reports if report.bench), key=lambda report: report.target)
    # A good part of a second of arithmetic each: never on the loop that answers nodes.
    found = [await asyncio.to_thread(planning.of_engine, one, need, there[one.target]) for one in benched]
    pool_rps = sum(one.nodes * one.rps_per_node for one in found)
    named = parse_version(version)
    return Capacity(
        deployment=row.ref,
        version=f"{named.model}@{named.number}",
        precision=named.precision or DEFAULT_PRECISION,
        peak_rps=need.peak_rps,
        p99_ms=need.p99_ms,
        price_per_hour=need.price_per_hour,
        targets=tuple(found),
        nodes=len(listed),
        pool_rps=pool_rps,
        headroom=pool_rps / need.peak_rps - 1,
        enough=pool_rps >= need.peak_rps,
        says=planning.sentence(found, need, pool_rps),
    )


async def _candidate(unit: Unit, row: DeploymentRow, version: str) -> tuple[str, list[EngineReport]]:
    try:
        wanted = parse_version(version)
    except ValueError as error:
        raise Invalid(str(error), "for example: version=sentiment@7") from error
    if wanted.model != row.model:
        raise Invalid(f"{row.ref} serves {row.model}, not {wanted.model}", f"name a version of {row.model}")
    precision = wanted.precision or DEFAULT_PRECISION
    found = await models.version_row(unit.session, wanted.model, wanted.number)
    engines = await builds.newest_engines(unit.session, found.id, precision)
    reports = [EngineReport.model_validate(one.report) for one in engines if one.releasable]
    if not reports:
        raise Conflict(
            f"{found.ref} has no engine of precision {precision} that passed its gates",
            f"build one: slipway build create {found.ref} --precision {precision}",
        )
    return f"{found.ref}@{precision}", reports
