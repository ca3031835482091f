"""Queries on models and aliases."""

from collections.abc import Collection, Sequence

from sqlalchemy import delete, func, select
from sqlalchemy.dialects.postgresql import insert
from sqlalchemy.ext.asyncio import AsyncSession

from registry.tables.journal import AuditRow
from registry.tables.models import AliasRow, ModelRow
from registry.tables.retention import RetiredModelRow


async def add_model(session: AsyncSession, row: ModelRow) -> bool:
    """False: the name is taken. Numbers go on from those of a deleted model of this name."""
    retired = select(RetiredModelRow.last_number).where(RetiredModelRow.name == row.name).scalar_subquery()
    made = await session.execute(
        insert(ModelRow)
        .values(
            name=row.name,
            task=row.task,
            description=row.description,
            owner=row.owner,
            tags=row.tags,
            last_number=func.coalesce(retired, 0),
            created_by=row.created_by,
        )
        .on_conflict_do_nothing()
        .returning(ModelRow.name)
    )
    return made.scalar_one_or_none() is not None


async def model(session: AsyncSession, name: str, *, lock: bool = False) -> ModelRow | None:
    query = select(ModelRow).where(ModelRow.name == name).execution_options(populate_existing=True)
    return (await session.execute(query.with_for_update() if lock else query)).scalar_one_or_none()


async def aliases(session: AsyncSession, model: str) -> Sequence[AliasRow]:
    query = select(AliasRow).where(AliasRow.model == model).order_by(AliasRow.name)
    return (await session.execute(query)).scalars().all()


async def aliases_of(session: AsyncSession, models: Collection[str]) -> Sequence[AliasRow]:
    """Of several models, by name."""
    query = select(AliasRow).where(AliasRow.model.in_(models)).order_by(AliasRow.name)
    return (await session.execute(query)).scalars().all()


async def alias(session: AsyncSession, model: str, name: str, *, lock: bool = False) -> AliasRow | None:
    query = (
        select(AliasRow)
        .where(AliasRow.model == model, AliasRow.name == name)
        .execution_options(populate_existing=True)
    )
    return (await session.execute(query.with_for_update() if lock else query)).scalar_one_or_none()


async def add_alias(session: AsyncSession, model: str, name: str, version: int, by: str) -> AliasRow | None:
    """None: there is one already, maybe since a moment ago."""
    made = await session.execute(
        insert(AliasRow)
        .values(model=model, name=name, version=version, set_by=by)
        .on_conflict_do_nothing()
        .returning(AliasRow)
        .execution_options(populate_existing=True)
    )
    return made.scalar_one_or_none()


async def move_alias(session: AsyncSession, row: AliasRow, version: int, by: str) -> None:
    """The row is locked."""
    row.version, row.set_by, row.set_at = version, by, func.now()
    await session.flush()
    await session.refresh(row, ["set_at"])


async def alias_changes(
    session: AsyncSession, model: str, name: str, below: int | None, limit: int
) -> Sequence[AuditRow]:
    """Audit entries of one alias, newest first, one more than `limit`."""
    query = select(AuditRow).where(AuditRow.subject == f"alias:{model}/{name}")
    if below is not None:
        query = query.where(AuditRow.id < below)
    return (await session.execute(query.order_by(AuditRow.id.desc()).limit(limit + 1))).scalars().all()


async def delete_alias(session: AsyncSession, model: str, name: str) -> None:
    await session.execute(delete(AliasRow).where(AliasRow.model == model, AliasRow.name == name))
