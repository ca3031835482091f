"""Queries on models and aliases."""

from collections.abc import Collection, Sequence

from sqlalchemy import delete, func, or_, select
from sqlalchemy.dialects.postgresql import insert
from sqlalchemy.ext.asyncio import AsyncSession

from registry.tables.models import AliasRow, ModelRow


async def add_model(session: AsyncSession, row: ModelRow) -> bool:
    """False: the name is taken."""
    made = await session.execute(
        insert(ModelRow)
        .values(
            name=row.name,
            task=row.task,
            description=row.description,
            owner=row.owner,
            tags=row.tags,
            last_number=0,
            created_by=row.created_by,
        )
        .on_conflict_do_nothing()
        .returning(ModelRow.name)
    )
    return made.scalar_one_or_none() is not None


async def model(session: AsyncSession, name: str, *, lock: bool = False) -> ModelRow | None:
    query = select(ModelRow).where(ModelRow.name == name).execution_options(populate_existing=True)
    return (await session.execute(query.with_for_update() if lock else query)).scalar_one_or_none()


async def models(
    session: AsyncSession, after: str | None, limit: int, search: str | None, only: Collection[str]
) -> Sequence[ModelRow]:
    """By name, one more than `limit`. `search` looks into name, task, description and owner."""
    query = select(ModelRow).order_by(ModelRow.name).limit(limit + 1)
    if after is not None:
        query = query.where(ModelRow.name > after)
    if only:
        query = query.where(ModelRow.name.in_(only))
    if search:
        fields = (ModelRow.name, ModelRow.task, ModelRow.description, ModelRow.owner)
        query = query.where(or_(*(func.strpos(func.lower(field), search.lower()) > 0 for field in fields)))
    return (await session.execute(query)).scalars().all()


async def aliases(session: AsyncSession, model: str) -> Sequence[AliasRow]:
    query = select(AliasRow).where(AliasRow.model == model).order_by(AliasRow.name)
    return (await session.execute(query)).scalars().all()


async def alias(session: AsyncSession, model: str, name: str) -> AliasRow | None:
    """Locked."""
    query = select(AliasRow).where(AliasRow.model == model, AliasRow.name == name).with_for_update()
    return (await session.execute(query)).scalar_one_or_none()


async def set_alias(session: AsyncSession, model: str, name: str, version: int, by: str) -> AliasRow:
    made = await session.execute(
        insert(AliasRow)
        .values(model=model, name=name, version=version, set_by=by)
        .on_conflict_do_update(
            index_elements=["model", "name"],
            set_={"version": version, "set_by": by, "set_at": func.now()},
        )
        .returning(AliasRow)
        .execution_options(populate_existing=True)
    )
    return made.scalar_one()


async def delete_alias(session: AsyncSession, model: str, name: str) -> None:
    await session.execute(delete(AliasRow).where(AliasRow.model == model, AliasRow.name == name))
