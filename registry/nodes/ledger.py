"""Many nodes' reports and counters in one statement: what group commit writes.

Nothing here bumps a node's revision, for reports change no requested state, and nothing here notifies.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias, cast

from sqlalchemy import (
    CTE,
    BigInteger,
    ColumnElement,
    Integer,
    Table,
    Text,
    any_,
    case,
    func,
    literal,
    select,
    update,
)
from sqlalchemy import cast as as_type
from sqlalchemy.dialects.postgresql import ARRAY, JSONB, insert
from sqlalchemy.ext.asyncio import AsyncConnection

from registry.tables import unnest
from registry.tables.nodes import CounterRow, NodeRow

NODES = cast(Table, NodeRow.__table__)
COUNTERS = cast(Table, CounterRow.__table__)

Expression: TypeAlias = ColumnElement[Any]

COMEBACK = 10
COMEBACKS_KEPT = 35
DUPLICATE_FROM = 25
GAP_INTERVALS = 3


@dataclass(frozen=True)
class CounterValues:
    """One key's cumulative values; `fields` is JSON."""

    worker: int
    deployment: str
    generation: int
    arm: str
    seq: int
    fields: str


@dataclass(frozen=True)
class ReportValues:
    """`report` is JSON without the counters; each counter key occurs once."""

    node_id: str
    incarnation: str
    seq: int
    report: str
    address: str | None
    counters: tuple[CounterValues, ...]


@dataclass(frozen=True)
class Recorded:
    """`duplicate`: another agent with the same identity reports too, and started later."""

    duplicate: bool


async def write_reports(
    connection: AsyncConnection, batch: Sequence[ReportValues], report_every_s: float
) -> list[Recorded]:
    """Newest report per node and newest values per counter key, in one statement.

    A report of a lower `seq` changes nothing but the contact. One of the incarnation that was replaced
    leaves its counters (they are keyed by incarnation) and counts as a comeback, nothing else.
    """
    given = unnest.rows(
        "given",
        node_id=(Text(), (each.node_id for each in batch)),
        incarnation=(Text(), (each.incarnation for each in batch)),
        seq=(BigInteger(), (each.seq for each in batch)),
        report=(Text(), (each.report for each in batch)),
        address=(Text(), (each.address for each in batch)),
    )
    same = NODES.c.incarnation == given.c.incarnation
    comeback = func.coalesce(NODES.c.previous_incarnation == given.c.incarnation, False)
    newer = func.coalesce(same & (given.c.seq > NODES.c.seq), False)
    starts = NODES.c.incarnation.is_distinct_from(given.c.incarnation) & ~comeback

    def taken(new: Expression, old: Expression) -> Expression:
        return case((newer | starts, new), else_=old)

    statement = (
        update(NODES)
        .where(NODES.c.id == given.c.node_id)
        .values(
            last_seen_at=func.clock_timestamp(),
            reported_at=taken(func.clock_timestamp(), NODES.c.reported_at),
            report=taken(as_type(given.c.report, JSONB), NODES.c.report),
            seq=taken(given.c.seq, NODES.c.seq),
            address=taken(func.coalesce(given.c.address, NODES.c.address), NODES.c.address),
            incarnation=taken(given.c.incarnation, NODES.c.incarnation),
            previous_incarnation=case((starts, NODES.c.incarnation), else_=NODES.c.previous_incarnation),
            incarnation_changes=case(
                (starts, 0),
                (newer, func.greatest(NODES.c.incarnation_changes - 1, 0)),
                (same, NODES.c.incarnation_changes),
                else_=func.least(NODES.c.incarnation_changes + COMEBACK, COMEBACKS_KEPT),
            ),
        )
        .returning(
            NODES.c.id,
            (~same & (NODES.c.incarnation_changes >= DUPLICATE_FROM)).label("duplicate"),
        )
    )
    if any(each.counters for each in batch):
        statement = statement.add_cte(_counters(batch, report_every_s))
    found = {row.id: row.duplicate for row in await connection.execute(statement)}
    return [Recorded(duplicate=bool(found.get(each.node_id))) for each in batch]


def _counters(batch: Sequence[ReportValues], report_every_s: float) -> CTE:
    pairs = [(each, counter) for each in batch for counter in each.counters]
    given = unnest.rows(
        "counted",
        node_id=(Text(), (each.node_id for each, _ in pairs)),
        incarnation=(Text(), (each.incarnation for each, _ in pairs)),
        worker=(Integer(), (counter.worker for _, counter in pairs)),
        deployment=(Text(), (counter.deployment for _, counter in pairs)),
        generation=(BigInteger(), (counter.generation for _, counter in pairs)),
        arm=(Text(), (counter.arm for _, counter in pairs)),
        seq=(BigInteger(), (counter.seq for _, counter in pairs)),
        fields=(Text(), (counter.fields for _, counter in pairs)),
    )
    names = ("node_id", "incarnation", "worker", "deployment", "generation", "arm")
    # All parts of one statement see the node as it was before: `reported_at` is its earlier report.
    silent = func.clock_timestamp() - NODES.c.reported_at
    written = insert(COUNTERS).from_select(
        [*names, "seq", "fields", "seen_at", "gap"],
        select(
            *(given.c[name] for name in names),
            given.c.seq,
            as_type(given.c.fields, JSONB),
            NODES.c.reported_at,
            func.coalesce(
                silent > func.make_interval(0, 0, 0, 0, 0, 0, GAP_INTERVALS * report_every_s), False
            ),
        )
        .join_from(given, NODES, NODES.c.id == given.c.node_id)
        # One order for all, so that two processes don't deadlock.
        .order_by(*(given.c[name] for name in names)),
    )
    return (
        written.on_conflict_do_update(
            index_elements=names,
            set_={
                "seq": written.excluded.seq,
                "fields": written.excluded.fields,
                "reported_at": func.clock_timestamp(),
                "gap": COUNTERS.c.gap | written.excluded.gap,
            },
            where=COUNTERS.c.seq < written.excluded.seq,
        )
        .returning(COUNTERS.c.node_id)
        .cte("written")
    )


async def write_contacts(connection: AsyncConnection, node_ids: Iterable[str]) -> None:
    """They were in contact. Who is being written at the moment is in contact anyway."""
    free = (
        select(NODES.c.id)
        .where(NODES.c.id == any_(literal(list(node_ids), ARRAY(Text))))
        .with_for_update(skip_locked=True, key_share=True)
    )
    await connection.execute(
        update(NODES).where(NODES.c.id.in_(free)).values(last_seen_at=func.clock_timestamp())
    )
