"""Queries of MLflow's view on models and versions."""

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

from sqlalchemy import ColumnElement, Row, Select, String, func, literal_column, or_, select, type_coerce
from sqlalchemy.dialects.postgresql import distinct_on
from sqlalchemy.ext.asyncio import AsyncSession

from registry.contract.versions import VersionStage
from registry.mlflow import searching
from registry.mlflow.filters import Condition, Order
from registry.mlflow.searching import Fields
from registry.tables.journal import AuditRow
from registry.tables.mlflow import MlflowVersionRow
from registry.tables.models import TRAINING_RUN, AliasRow, ModelRow, VersionRow

# Of people who change a model every second nobody keeps more entries than the newest.
_CHANGED = (
    select(AuditRow.at)
    .where(AuditRow.subject == func.concat("model:", ModelRow.name))
    .order_by(AuditRow.id.desc())
    .limit(1)
    .correlate(ModelRow)
    .scalar_subquery()
)
_MODEL_CHANGED = func.coalesce(_CHANGED, ModelRow.created_at)
_RUN: ColumnElement[str] = type_coerce(literal_column(f"({TRAINING_RUN})"), String)

MODEL_FIELDS = Fields(
    attributes={"name": ModelRow.name.expression},
    orders={
        "name": ModelRow.name.expression,
        "creation_timestamp": ModelRow.created_at.expression,
        "last_updated_timestamp": _MODEL_CHANGED,
    },
    tags=ModelRow.tags,
)
VERSION_FIELDS = Fields(
    attributes={
        "name": VersionRow.model.expression,
        "run_id": _RUN,
        "source_path": MlflowVersionRow.source.expression,
        "version_number": VersionRow.number.expression,
    },
    orders={
        "name": VersionRow.model.expression,
        "version_number": VersionRow.number.expression,
        "creation_timestamp": VersionRow.created_at.expression,
        "last_updated_timestamp": VersionRow.phase_since.expression,
    },
    tags=VersionRow.tags,
)
# Without files and contract, which are long and not for lists.
_MODEL = select(
    ModelRow.name,
    ModelRow.description,
    ModelRow.tags,
    ModelRow.created_at,
    ModelRow.created_by,
    _MODEL_CHANGED.label("changed_at"),
)
_VERSION = select(
    VersionRow.model,
    VersionRow.number,
    VersionRow.phase,
    VersionRow.phase_reason,
    VersionRow.phase_since,
    VersionRow.description,
    VersionRow.tags,
    VersionRow.created_at,
    VersionRow.created_by,
    _RUN.label("run_id"),
    MlflowVersionRow.source,
    MlflowVersionRow.run_link,
    MlflowVersionRow.model_id,
    MlflowVersionRow.trouble,
).outerjoin(MlflowVersionRow, MlflowVersionRow.version_id == VersionRow.id)


@dataclass(frozen=True)
class Found:
    """Rows of one page; `token` None: there are no more."""

    rows: Sequence[Row[Any]]
    token: str | None


async def model(session: AsyncSession, name: str) -> Row[Any] | None:
    return (await session.execute(_MODEL.where(ModelRow.name == name))).one_or_none()


async def version(session: AsyncSession, model: str, number: int) -> Row[Any] | None:
    query = _VERSION.where(VersionRow.model == model, VersionRow.number == number)
    return (await session.execute(query)).one_or_none()


async def models(
    session: AsyncSession,
    conditions: Sequence[Condition],
    orders: Sequence[Order],
    token: str | None,
    limit: int,
    only: Collection[str],
) -> Found:
    """Raises Invalid for a token of another search."""
    query = _MODEL.where(ModelRow.name.in_(only)) if only else _MODEL
    return await _page(session, "models", query, MODEL_FIELDS, conditions, orders, token, limit)


async def versions(
    session: AsyncSession,
    conditions: Sequence[Condition],
    orders: Sequence[Order],
    token: str | None,
    limit: int,
    only: Collection[str],
) -> Found:
    """Raises Invalid for a token of another search."""
    query = _VERSION.where(VersionRow.model.in_(only)) if only else _VERSION
    return await _page(session, "versions", query, VERSION_FIELDS, conditions, orders, token, limit)


async def _page(
    session: AsyncSession,
    named: str,
    query: Select[Any],
    fields: Fields,
    conditions: Sequence[Condition],
    orders: Sequence[Order],
    token: str | None,
    limit: int,
) -> Found:
    cursor = searching.cursor(named, conditions, orders)
    query = query.where(*searching.conditions(conditions, fields))
    rows = (await session.execute(searching.page(query, orders, fields, cursor.after(token), limit))).all()
    more = len(rows) > limit
    return Found(rows[:limit], cursor.token(searching.key(rows[limit - 1], orders)) if more else None)


async def newest(session: AsyncSession, models: Collection[str]) -> dict[str, Row[Any]]:
    """By model: its newest ready version, or where none is ready its newest one."""
    query = (
        _VERSION.where(VersionRow.model.in_(models))
        .ext(distinct_on(VersionRow.model))
        .order_by(VersionRow.model, (VersionRow.phase == VersionStage.READY).desc(), VersionRow.number.desc())
    )
    return {row.model: row for row in await session.execute(query)}


async def aliases(session: AsyncSession, models: Collection[str]) -> Sequence[AliasRow]:
    query = select(AliasRow).where(AliasRow.model.in_(models)).order_by(AliasRow.model, AliasRow.name)
    return (await session.execute(query)).scalars().all()


async def numbers(session: AsyncSession, model: str) -> Sequence[int]:
    """Of all its versions, newest first: what refers to a parent goes before the parent."""
    query = select(VersionRow.number).where(VersionRow.model == model).order_by(VersionRow.number.desc())
    return (await session.execute(query)).scalars().all()


async def named(session: AsyncSession, model: str, number: int) -> Sequence[str]:
    """Aliases of one version."""
    query = select(AliasRow.name).where(AliasRow.model == model, AliasRow.version == number)
    return (await session.execute(query.order_by(AliasRow.name))).scalars().all()


async def claim(session: AsyncSession, lease_s: float) -> MlflowVersionRow | None:
    """One version whose files are to be copied, leased; None: nothing waits that nobody is at."""
    now = func.clock_timestamp()
    query = (
        select(MlflowVersionRow)
        .where(
            MlflowVersionRow.waiting,
            or_(MlflowVersionRow.lease_until.is_(None), MlflowVersionRow.lease_until < now),
        )
        .order_by(MlflowVersionRow.version_id)
        .limit(1)
        .with_for_update(skip_locked=True)
    )
    row = (await session.execute(query)).scalar_one_or_none()
    if row is not None:
        row.attempt += 1
        row.fence += 1
        await lease(session, row, lease_s)
    return row


async def lease(session: AsyncSession, row: MlflowVersionRow, seconds: float) -> None:
    """From now on, by the database's clock."""
    row.lease_until = func.clock_timestamp() + timedelta(seconds=seconds)
    await session.flush()


async def held(session: AsyncSession, version_id: str, fence: int) -> MlflowVersionRow | None:
    """Locked; None: it is gone, done, or someone else's by now."""
    query = (
        select(MlflowVersionRow)
        .where(
            MlflowVersionRow.version_id == version_id,
            MlflowVersionRow.fence == fence,
            MlflowVersionRow.waiting,
        )
        .with_for_update()
        .execution_options(populate_existing=True)
    )
    return (await session.execute(query)).scalar_one_or_none()


async def locked_version(session: AsyncSession, version_id: str) -> VersionRow:
    query = select(VersionRow).where(VersionRow.id == version_id).with_for_update()
    return (await session.execute(query.execution_options(populate_existing=True))).scalar_one()
