"""The roll-up: what nodes counted since the last one goes into windows, and out as deltas. Exactly once.

Everything is one transaction of the caller: the counters are marked as seen, the windows hold the sums, and
what the caller writes about the deltas (a look, its evidence) is committed with them or not at all. Reports
of the rolled-up keys wait for that commit, so it must come soon.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, cast

from sqlalchemy import BigInteger, Integer, Row, Table, Text, exists, select, update
from sqlalchemy.dialects.postgresql import insert
from sqlalchemy.ext.asyncio import AsyncSession

from registry.contract.counters import CounterEdges, field_sizes
from registry.contract.identity import ArmId
from registry.contract.releases import ReleasePhase
from registry.drift.cells import Fields, add, dense, difference, sparse
from registry.tables import unnest
from registry.tables.deployments import DeploymentRow, RouteRow
from registry.tables.nodes import CounterRow, CounterWindowRow
from registry.tables.releases import ReleaseRow

COUNTERS = cast(Table, CounterRow.__table__)
WINDOWS = cast(Table, CounterWindowRow.__table__)
KEY = ("node_id", "incarnation", "worker", "generation", "arm")
WINDOW_S = 10


@dataclass(frozen=True)
class ArmDelta:
    """What one node counted for one arm within one generation since the earlier roll-up.

    seconds: between the two reports, by arrival (0: its first one). gap: the node was silent for more than
    three report intervals in between, so this counts for totals and never for verdicts.
    fields: name → int64 cells, only those with a count; layout by `contract.counters.field_sizes`.
    """

    node: str
    generation: int
    arm: ArmId
    seconds: float
    gap: bool
    fields: Fields


@dataclass(frozen=True)
class _WindowKey:
    start: datetime
    generation: int
    arm: ArmId


async def pending(session: AsyncSession, *, judged: bool) -> list[str]:
    """Deployments (`env/name`) with something to roll up: those with a running release, or the others."""
    running = exists().where(
        ReleaseRow.deployment == CounterRow.deployment, ReleaseRow.phase == ReleasePhase.RUNNING
    )
    found = await session.execute(
        select(CounterRow.deployment)
        .where(CounterRow.seq > CounterRow.seen_seq, running if judged else ~running)
        .distinct()
    )
    return sorted(found.scalars())


async def roll_up(session: AsyncSession, deployment: str) -> list[ArmDelta]:
    """The deltas of `env/name`, per node, generation and arm. What another roll-up holds is left to it.

    Counters of a generation that the registry does not know (yet) stay for later.
    """
    edges = await _edges(session, deployment)
    sizes = {generation: field_sizes(each) for generation, each in edges.items()}
    rows = await _lock(session, deployment, sizes.keys())
    if not rows:
        return []
    deltas: dict[tuple[str, int, ArmId], ArmDelta] = {}
    windows: dict[_WindowKey, Fields] = {}
    for row in rows:
        known = sizes[row.generation]
        fields = difference(dense(row.fields, known), dense(row.seen_fields, known))
        _merge(deltas, row, fields)
        add(windows.setdefault(_WindowKey(_start(row.reported_at), row.generation, row.arm), {}), fields)
    await _mark_seen(session, deployment, rows)
    await _store(session, deployment, windows, sizes)
    return list(deltas.values())


async def _edges(session: AsyncSession, deployment: str) -> dict[int, CounterEdges]:
    """By generation, of those with unseen counters."""
    environment, _, name = deployment.partition("/")
    unseen = select(CounterRow.generation).where(
        CounterRow.deployment == deployment, CounterRow.seq > CounterRow.seen_seq
    )
    found = await session.execute(
        select(RouteRow.generation, RouteRow.body["edges"])
        .join(DeploymentRow, DeploymentRow.id == RouteRow.deployment_id)
        .where(
            DeploymentRow.environment == environment,
            DeploymentRow.name == name,
            RouteRow.generation.in_(unseen),
        )
    )
    return {generation: CounterEdges.model_validate(edges) for generation, edges in found}


async def _lock(session: AsyncSession, deployment: str, generations: Iterable[int]) -> Sequence[Any]:
    """Rows of the key columns and the values, by key."""
    found = await session.execute(
        select(
            *(COUNTERS.c[name] for name in KEY),
            COUNTERS.c.fields,
            COUNTERS.c.seen_fields,
            COUNTERS.c.reported_at,
            COUNTERS.c.seen_at,
            COUNTERS.c.gap,
        )
        .where(
            COUNTERS.c.deployment == deployment,
            COUNTERS.c.generation.in_(list(generations)),
            COUNTERS.c.seq > COUNTERS.c.seen_seq,
        )
        .order_by(*(COUNTERS.c[name] for name in KEY))
        .with_for_update(skip_locked=True, key_share=True)
    )
    return found.all()


def _merge(deltas: dict[tuple[str, int, ArmId], ArmDelta], row: Row[Any], fields: Fields) -> None:
    """Workers and incarnations of one node are one stratum."""
    key = (row.node_id, row.generation, row.arm)
    seconds = (row.reported_at - row.seen_at).total_seconds() if row.seen_at else 0.0
    known = deltas.get(key)
    if known is None:
        deltas[key] = ArmDelta(row.node_id, row.generation, row.arm, seconds, row.gap, dict(fields))
        return
    add(known.fields, fields)
    deltas[key] = ArmDelta(
        known.node,
        known.generation,
        known.arm,
        max(known.seconds, seconds),
        known.gap or row.gap,
        known.fields,
    )


def _start(at: datetime) -> datetime:
    """Beginning of the window that holds a moment."""
    return datetime.fromtimestamp(int(at.timestamp()) // WINDOW_S * WINDOW_S, UTC)


async def _mark_seen(session: AsyncSession, deployment: str, rows: Sequence[Row[Any]]) -> None:
    kinds = {"worker": Integer(), "generation": BigInteger()}
    given = unnest.rows(
        "given", **{name: (kinds.get(name, Text()), [getattr(row, name) for row in rows]) for name in KEY}
    )
    await session.execute(
        update(COUNTERS)
        .where(COUNTERS.c.deployment == deployment, *(COUNTERS.c[name] == given.c[name] for name in KEY))
        .values(
            seen_fields=COUNTERS.c.fields,
            seen_seq=COUNTERS.c.seq,
            seen_at=COUNTERS.c.reported_at,
            gap=False,
        )
    )


async def _store(
    session: AsyncSession,
    deployment: str,
    windows: Mapping[_WindowKey, Fields],
    sizes: Mapping[int, Mapping[str, int]],
) -> None:
    """Adds to the windows. Two roll-ups meet here only, and take their turns in one order."""
    for key in sorted(windows, key=lambda each: (each.start, each.generation, each.arm)):
        place = {
            "deployment": deployment,
            "start": key.start,
            "generation": key.generation,
            "arm": key.arm,
        }
        made = await session.execute(
            insert(WINDOWS)
            .values(**place, fields=sparse(windows[key]))
            .on_conflict_do_nothing()
            .returning(WINDOWS.c.arm)
        )
        if made.first() is not None:
            continue
        here = [WINDOWS.c[name] == value for name, value in place.items()]
        stored = (
            await session.execute(select(WINDOWS.c.fields).where(*here).with_for_update(key_share=True))
        ).scalar_one()
        total = dense(stored, sizes[key.generation])
        add(total, windows[key])
        await session.execute(update(WINDOWS).where(*here).values(fields=sparse(total)))
