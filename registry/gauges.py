"""What the tables say of the whole registry, as samples: a few short queries on indexes."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, Literal, get_args

from sqlalchemy import ColumnElement, case, cast, func, select
from sqlalchemy.dialects.postgresql import JSONPATH
from sqlalchemy.ext.asyncio import AsyncSession

from registry.contract.releases import ReleasePhase
from registry.contract.tasks import TaskPhase
from registry.contract.uploads import UploadPhase
from registry.contract.verdicts import Verdict
from registry.contract.webhooks import DeliveryState
from registry.database import Database
from registry.lifecycle.releases import ACTIVE_PHASES
from registry.nodes.ledger import DUPLICATE_FROM
from registry.nodes.states import UNDER_WAY, NodeState
from registry.tables.deployments import DeploymentRow
from registry.tables.events import DeliveryRow, OutboxRow
from registry.tables.nodes import NodeRow
from registry.tables.releases import ReleaseRow
from registry.tables.tasks import TaskRow
from registry.tables.uploads import UploadRow

Kind = Literal["gauge", "counter"]


@dataclass(frozen=True)
class Sample:
    """One value of one family."""

    name: str
    kind: Kind
    text: str
    labels: Mapping[str, str]
    value: float


async def read(database: Database, node_stale_s: float) -> list[Sample]:
    """All samples, of one session. Raises what the database raises."""
    async with database.session() as session:
        return [
            *await _tasks(session),
            *await _releases(session),
            *await _evidence(session),
            *await _nodes(session, node_stale_s),
            *await _counts(session),
            *await _events(session),
        ]


def _age(moment: ColumnElement[Any]) -> ColumnElement[Any]:
    """Seconds since a moment, by the database's clock."""
    return func.extract("epoch", func.clock_timestamp() - moment)


async def _tasks(session: AsyncSession) -> list[Sample]:
    waiting = (TaskPhase.QUEUED, TaskPhase.LEASED)
    found = await session.execute(
        select(TaskRow.kind, TaskRow.phase, func.count(), _age(func.min(TaskRow.phase_since)))
        .where(TaskRow.phase.in_(waiting))
        .group_by(TaskRow.kind, TaskRow.phase)
    )
    samples = []
    for kind, phase, n, oldest in found:
        labels = {"kind": kind, "phase": phase}
        samples.append(Sample("slipway_tasks", "gauge", "Tasks under way, by kind and phase.", labels, n))
        text = "How long the oldest task has been in its phase."
        samples.append(Sample("slipway_task_oldest_seconds", "gauge", text, labels, float(oldest)))
    return samples


async def _releases(session: AsyncSession) -> list[Sample]:
    found = await session.execute(
        select(ReleaseRow.phase, func.count(), func.count().filter(ReleaseRow.hold != ""))
        .where(ReleaseRow.phase.in_(ACTIVE_PHASES))
        .group_by(ReleaseRow.phase)
    )
    counts = {ReleasePhase(phase): (n, held) for phase, n, held in found}
    name, text = "slipway_releases", "Releases under way, by phase."
    return [
        *(
            Sample(name, "gauge", text, {"phase": phase}, counts.get(phase, (0, 0))[0])
            for phase in sorted(ACTIVE_PHASES)
        ),
        Sample(
            "slipway_releases_on_hold",
            "gauge",
            "Running releases that are held, paused or frozen.",
            {},
            sum(held for _, held in counts.values()),
        ),
    ]


async def _evidence(session: AsyncSession) -> list[Sample]:
    """Of what may roll a release back: the strongest, as part of the line at which it does."""
    found = await session.execute(
        select(ReleaseRow.deployment, ReleaseRow.verdict).where(
            ReleaseRow.phase == ReleasePhase.RUNNING, ReleaseRow.verdict.is_not(None)
        )
    )
    samples = []
    for deployment, body in found:
        gates = Verdict.model_validate(body).gates
        parts = [
            gate.value / gate.threshold
            for gate in gates
            if gate.purpose == "roll_back" and gate.value is not None and gate.threshold
        ]
        samples.append(
            Sample(
                "slipway_release_evidence_ratio",
                "gauge",
                "Strongest evidence against a running release; it is rolled back at 1.",
                {"deployment": deployment},
                max(parts, default=0.0),
            )
        )
    return samples


async def _nodes(session: AsyncSession, stale_s: float) -> list[Sample]:
    """The states of `nodes.states`, told by the database: reports are large, and nodes are many."""
    fresh = func.coalesce(NodeRow.reported_at > func.clock_timestamp() - timedelta(seconds=stale_s), False)
    phases = " || ".join(f'@.phase == "{phase}"' for phase in UNDER_WAY)
    loading = func.jsonb_path_exists(NodeRow.report, cast(f"$.slots[*] ? ({phases})", JSONPATH))
    waiting = func.jsonb_path_exists(NodeRow.report, cast("$.deployments[*] ? (@.ready == false)", JSONPATH))
    state = case(
        (~fresh | NodeRow.report.is_(None), "unknown"),
        (NodeRow.incarnation_changes >= DUPLICATE_FROM, "duplicate"),
        (NodeRow.draining, "draining"),
        (loading | waiting, "preparing"),
        else_="ready",
    ).label("state")
    found = await session.execute(select(state, func.count()).group_by(state))
    counts = {str(name): int(n) for name, n in found}
    text = "Nodes, by what may be said of them now."
    return [
        Sample("slipway_nodes", "gauge", text, {"state": each}, counts.get(each, 0))
        for each in get_args(NodeState)
    ]


async def _counts(session: AsyncSession) -> list[Sample]:
    uploads = await session.execute(
        select(UploadRow.phase, func.count())
        .where(UploadRow.phase.in_((UploadPhase.OPEN, UploadPhase.VERIFYING)))
        .group_by(UploadRow.phase)
    )
    pinned = await session.execute(select(func.count()).where(DeploymentRow.pinned))
    return [
        *(
            Sample("slipway_uploads", "gauge", "Uploads under way, by phase.", {"phase": phase}, n)
            for phase, n in uploads
        ),
        Sample(
            "slipway_deployments_pinned",
            "gauge",
            "Deployments whose automation a rollback pinned off.",
            {},
            pinned.scalar_one(),
        ),
    ]


async def _events(session: AsyncSession) -> list[Sample]:
    waiting = await session.execute(select(func.count(), _age(func.min(OutboxRow.at))))
    n, oldest = waiting.one()
    pending = await session.execute(
        select(DeliveryRow.state, func.count())
        .where(DeliveryRow.state.in_((DeliveryState.PENDING, DeliveryState.DEAD)))
        .group_by(DeliveryRow.state)
    )
    return [
        Sample("slipway_outbox", "gauge", "Changes that are not published yet.", {}, n),
        Sample(
            "slipway_outbox_oldest_seconds",
            "gauge",
            "How long the oldest change has waited to be published.",
            {},
            float(oldest or 0),
        ),
        *(
            Sample(
                "slipway_webhook_deliveries", "gauge", "Deliveries not made, by state.", {"state": state}, n
            )
            for state, n in pending
        ),
    ]
