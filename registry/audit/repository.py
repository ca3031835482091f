"""Queries on the audit trail."""

from collections.abc import Iterator, Sequence

from sqlalchemy import ColumnElement, SQLColumnExpression, and_, func, literal, or_, select
from sqlalchemy.ext.asyncio import AsyncSession

from registry.audit.filters import Filter
from registry.edge.principal import Principal
from registry.tables.access import EnrolmentRow
from registry.tables.builds import BuildRow
from registry.tables.deployments import DeploymentRow
from registry.tables.journal import AuditRow
from registry.tables.models import VersionRow
from registry.tables.nodes import NodeRow
from registry.tables.releases import RollbackRow

_KIND = func.split_part(AuditRow.subject, ":", 1)
# Without the kind, and without what follows the name: `ants` of `version:ants@7` and of `alias:ants/best`.
_NAME = func.substr(AuditRow.subject, func.strpos(AuditRow.subject, ":") + 1)
_MODEL = func.split_part(func.split_part(_NAME, "@", 1), "/", 1)
_DEPLOYMENT = func.split_part(_NAME, "#", 1)


async def entries(
    session: AsyncSession, below: int | None, limit: int, wanted: Filter, caller: Principal
) -> Sequence[AuditRow]:
    """Newest first, one more than `limit`."""
    query = select(AuditRow).where(*_conditions(wanted, caller)).order_by(AuditRow.id.desc())
    if below is not None:
        query = query.where(AuditRow.id < below)
    return (await session.execute(query.limit(limit + 1))).scalars().all()


async def newest(session: AsyncSession) -> int:
    """The id of the newest entry; 0 where there is none."""
    return (await session.execute(select(func.coalesce(func.max(AuditRow.id), 0)))).scalar_one()


async def batch(
    session: AsyncSession, above: int, upto: int, limit: int, wanted: Filter, caller: Principal
) -> Sequence[AuditRow]:
    """Oldest first, those with `above` < id ≤ `upto`, at most `limit`."""
    query = (
        select(AuditRow)
        .where(*_conditions(wanted, caller), AuditRow.id > above, AuditRow.id <= upto)
        .order_by(AuditRow.id)
        .limit(limit)
    )
    return (await session.execute(query)).scalars().all()


def _conditions(wanted: Filter, caller: Principal) -> Iterator[ColumnElement[bool]]:
    if wanted.subject is not None:
        yield AuditRow.subject.startswith(wanted.subject, autoescape=True)
    if wanted.actor is not None:
        yield AuditRow.actor == wanted.actor
    if wanted.action is not None and wanted.action.endswith("."):
        yield AuditRow.action.startswith(wanted.action, autoescape=True)
    elif wanted.action is not None:
        yield AuditRow.action == wanted.action
    if wanted.since is not None:
        yield AuditRow.at >= wanted.since
    if wanted.until is not None:
        yield AuditRow.at < wanted.until
    if caller.limited:
        yield _visible(caller)


def _visible(caller: Principal) -> ColumnElement[bool]:
    """To a limited token: what happened to the models, deployments and nodes of its scope, and nothing else.

    What belongs to no model and no environment (tokens, data sets, uploads) is for unlimited tokens.
    """
    seen = [and_(_KIND.in_(("model", "version", "alias")), _in(_MODEL, caller.models))]
    deployments = select(DeploymentRow.id).where(
        _in(DeploymentRow.model, caller.models), _in(DeploymentRow.environment, caller.environments)
    )
    refs = select(DeploymentRow.environment + "/" + DeploymentRow.name).where(
        DeploymentRow.id.in_(deployments)
    )
    seen.append(and_(_KIND.in_(("deployment", "release")), _DEPLOYMENT.in_(refs)))
    rollbacks = select(RollbackRow.id).where(RollbackRow.deployment_id.in_(deployments))
    seen.append(and_(_KIND == "rollback", _NAME.in_(rollbacks)))
    builds = (
        select(BuildRow.id)
        .join(VersionRow, VersionRow.id == BuildRow.version_id)
        .where(_in(VersionRow.model, caller.models))
    )
    seen.append(and_(_KIND == "build", _NAME.in_(builds)))
    nodes = select(NodeRow.id).where(_in(NodeRow.environment, caller.environments))
    seen.append(and_(_KIND == "node", _NAME.in_(nodes)))
    invited = select(EnrolmentRow.id).where(_in(EnrolmentRow.environment, caller.environments))
    seen.append(and_(_KIND == "enrolment", _NAME.in_(invited)))
    return or_(*seen)


def _in(column: SQLColumnExpression[str], limits: frozenset[str]) -> ColumnElement[bool]:
    return column.in_(sorted(limits)) if limits else literal(True)
