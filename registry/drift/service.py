"""Use cases of drift: canary, stable and reference side by side, and what an arm counted of late."""

from collections.abc import Iterable, Mapping, Sequence

from sqlalchemy.ext.asyncio import AsyncSession

from registry.contract.counters import CounterEdges
from registry.contract.identity import ArmId
from registry.contract.routes import ArmRole, Route, RouteArm
from registry.contract.verdicts import ArmWindow, DriftWindow
from registry.deployments import service as deployments
from registry.drift import repository
from registry.drift.baseline import same_bins
from registry.drift.batches import Compared, build
from registry.drift.cells import Fields
from registry.drift.pictures import arm_window, distances, reference_window
from registry.drift.rollup import ArmDelta
from registry.edge.unit import Unit
from registry.errors import NotFound
from registry.statistics.batch import Batch
from registry.tables.deployments import DeploymentRow

_COMPARED = (ArmRole.CANARY, ArmRole.STABLE)


async def drift(unit: Unit, environment: str, name: str, since_s: float) -> DriftWindow:
    """Over the last `since_s` seconds. Raises NotFound: no such deployment, or it never had a route.

    Distances are between canary and stable, and between each of them and its own version's reference.
    """
    unit.principal.require_environment(environment)
    deployment = await deployments.row(unit.session, environment, name)
    newest = await deployments.newest_route(unit.session, deployment)
    if newest is None:
        raise NotFound(
            f"{deployment.ref} has never served anything",
            f"release a version: slipway promote MODEL@VERSION --to {deployment.ref}",
        )
    start, end = await repository.span(unit.session, since_s)
    counted = await repository.generations(unit.session, deployment.ref, start, end)
    routes = await repository.routes(unit.session, deployment.id, counted)
    arms = compared(newest, routes)
    ids = [arm.arm for arm in arms]
    sums = await repository.totals(
        unit.session, deployment.ref, start, end, alike(routes, newest.edges), ids, newest.edges
    )
    known = await repository.references(unit.session, ids)
    windows = [arm_window(arm.arm, arm.version, arm.role, sums[arm.arm], newest.edges) for arm in arms]
    expected = [reference_window(arm.version, known.get(arm.arm, ()), newest.edges) for arm in arms]
    pairs = [windows, *([own, of] for own, of in zip(windows, expected, strict=True) if of is not None)]
    return DriftWindow(
        deployment=deployment.ref,
        start=start,
        end=end,
        arms=(*windows, *_distinct(expected)),
        distances=tuple(distance for pair in pairs for distance in distances(pair)),
    )


async def counted(
    session: AsyncSession, deployment: DeploymentRow, arm: ArmId, edges: CounterEdges, since_s: float
) -> Fields:
    """What `arm` counted on these edges in the last `since_s` seconds: what a baseline is cut from."""
    start, end = await repository.span(session, since_s)
    generations = await repository.generations(session, deployment.ref, start, end)
    routes = await repository.routes(session, deployment.id, generations)
    sums = await repository.totals(session, deployment.ref, start, end, alike(routes, edges), [arm], edges)
    return sums[arm]


async def history(
    session: AsyncSession, deployment: DeploymentRow, arm: ArmId, edges: CounterEdges, since_s: float
) -> list[Fields]:
    """The same window by window, oldest first, each of `rollup.WINDOW_S` seconds; empty ones are left out."""
    start, end = await repository.span(session, since_s)
    generations = await repository.generations(session, deployment.ref, start, end)
    routes = await repository.routes(session, deployment.id, generations)
    return await repository.windows(session, deployment.ref, start, end, alike(routes, edges), arm, edges)


async def batch(
    session: AsyncSession, deployment_id: str, deltas: Sequence[ArmDelta], arms: Compared
) -> Batch | None:
    """What the statistics make of a roll-up's deltas; None when nothing of them may be judged."""
    seen = {delta.generation for delta in deltas}
    return build(deltas, await repository.routes(session, deployment_id, seen), arms)


def compared(newest: Route, earlier: Mapping[int, Route]) -> list[RouteArm]:
    """The newest route's canary and stable. Without a canary, the last one that was on trial in the span:
    after a rollback one wants to see what it was rolled back for."""
    arms = [arm for role in _COMPARED for arm in newest.arms if arm.role is role]
    if not any(arm.role is ArmRole.CANARY for arm in arms):
        stable = {arm.arm for arm in arms}
        for generation in sorted(earlier, reverse=True):
            gone = [
                arm
                for arm in earlier[generation].arms
                if arm.role is ArmRole.CANARY and arm.share > 0 and arm.arm not in stable
            ]
            if gone:
                return [*gone, *arms]
    return arms


def alike(routes: Mapping[int, Route], edges: CounterEdges) -> list[int]:
    """The generations that count on the same bins; where a low score begins does not matter to them."""
    return [generation for generation, route in routes.items() if same_bins(route.edges, edges)]


def _distinct(references: Iterable[ArmWindow | None]) -> list[ArmWindow]:
    """One for each distribution: versions that share a reference show it once."""
    found: list[ArmWindow] = []
    for each in references:
        if each is not None and all(each.distributions != known.distributions for known in found):
            found.append(each)
    return found
