"""One row of the board, and the sentence above all rows."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime

from registry.contract.releases import ReleasePhase
from registry.contract.tokens import Whoami
from web.gather import Gathered
from web.registry import Failure
from web.views.offer import Offer, offer
from web.views.plan import Plan, plan
from web.views.shares import Shares, shares
from web.views.verdict import Judgement, Level, judge


@dataclass(frozen=True, slots=True)
class LastChange:
    at: datetime
    by: str
    what: str


@dataclass(frozen=True, slots=True)
class Row:
    """`nodes`: "5/6 nodes ready". `slug` is unique on the page."""

    environment: str
    name: str
    model: str
    slug: str
    judgement: Judgement
    shares: Shares
    plan: Plan | None
    nodes: str
    last: LastChange | None
    offer: Offer
    failures: tuple[Failure, ...]

    @property
    def ref(self) -> str:
        return f"{self.environment}/{self.name}"

    @property
    def order(self) -> tuple[int, str, str]:
        return (self.judgement.rank, self.environment, self.name)


def row(gathered: Gathered, who: Whoami) -> Row:
    facts = gathered.facts
    deployment, route, active = facts.deployment, facts.deployment.requested, facts.active
    running = active if active and active.phase is not ReleasePhase.AWAITING_APPROVAL else None
    total = len(facts.nodes)
    return Row(
        deployment.environment,
        deployment.name,
        deployment.model,
        f"{deployment.environment}--{deployment.name}".replace(".", "_"),
        judge(facts),
        shares(facts),
        plan(running, deployment.policy, datetime.now(UTC)) if running else None,
        f"{len(facts.ready)}/{total} nodes ready" if facts.status else "nodes not known",
        LastChange(route.created_at, route.actor, route.reason) if route else None,
        offer(facts, who),
        gathered.failures,
    )


def headline(rows: Sequence[Row]) -> str:
    """`1 needs you, 2 under way, 5 calm`: the state of everything in one line."""
    if not rows:
        return "Releases"
    levels = [each.judgement.level for each in rows]
    bad = sum(level in (Level.BAD, Level.WARN, Level.UNKNOWN) for level in levels)
    busy = sum(level is Level.BUSY for level in levels) + sum(
        each.judgement.level is Level.GOOD and each.plan is not None for each in rows
    )
    calm = len(rows) - bad - busy
    needs = "needs" if bad == 1 else "need"
    parts = [f"{bad} {needs} a look"] if bad else []
    parts += [f"{busy} under way"] if busy else []
    parts += [f"{calm} calm"] if calm else []
    return ", ".join(parts)
