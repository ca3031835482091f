"""Appending a route generation: the only way in which traffic moves."""

from sqlalchemy.ext.asyncio import AsyncSession

from registry.contract.counters import SCORE_BINS, CounterEdges, ObservableEdges
from registry.contract.routes import Fence, Route, RouteCause, RoutingUnit
from registry.contract.versions import Observable, VersionContract
from registry.deployments import repository
from registry.identity import Identity
from registry.lifecycle.shares import Table
from registry.tables.deployments import DeploymentRow, RouteRow

# Direct rollbacks are rare; more than so many back, a node would have to come back from years ago.
SETTLED_KEPT = 64


def observable_edges(observable: Observable, low: float | None = None) -> ObservableEdges:
    """Bins of one observable: labels for a class, 64 equal bins for a score, the contract's own otherwise."""
    if observable.kind == "class":
        return ObservableEdges(name=observable.name, kind="class", labels=observable.labels[:200])
    edges = observable.edges
    if not edges and observable.kind == "score":
        edges = tuple(index / SCORE_BINS for index in range(1, SCORE_BINS))
    return ObservableEdges(name=observable.name, kind=observable.kind, edges=edges, low=low)


def edges_of(contract: VersionContract) -> CounterEdges:
    """Edges of a route, from the stable version's contract (the candidate's, for a first release)."""
    return CounterEdges(observables=tuple(observable_edges(each) for each in contract.observables))


async def append(
    session: AsyncSession,
    deployment: DeploymentRow,
    identity: Identity,
    table: Table,
    *,
    cause: RouteCause,
    actor: str,
    reason: str,
    salt: str,
    edges: CounterEdges,
    mirror: int = 0,
    release: int | None = None,
    resolves: tuple[str, ...] = (),
) -> Route:
    """`deployment` must be locked by the caller. The new generation wakes all waiting nodes at the commit.

    Overrides that earlier generations settled stay settled: a node that comes back late under one of them
    must follow whatever is newest then.
    """
    before = await repository.newest_route(session, deployment)
    settled = dict.fromkeys((*(before.resolves if before else ()), *resolves))
    generation = deployment.generation + 1
    route = Route(
        deployment=deployment.ref,
        fence=Fence(registry_id=identity.registry_id, timeline=identity.timeline, generation=generation),
        cause=cause,
        actor=actor,
        reason=reason,
        arms=table.arms,
        keep=table.keep,
        unit=RoutingUnit.model_validate(deployment.unit),
        salt=salt,
        edges=edges,
        mirror=mirror,
        release=release,
        resolves=tuple(settled)[-SETTLED_KEPT:],
        created_at=await repository.now(session),
    )
    session.add(
        RouteRow(
            deployment_id=deployment.id,
            generation=generation,
            timeline=identity.timeline,
            cause=cause,
            actor=actor,
            reason=reason,
            release=release,
            body=route.model_dump(mode="json"),
            created_at=route.created_at,
        )
    )
    deployment.generation = generation
    await session.flush()
    await repository.notify(session, deployment.id, generation)
    return route
