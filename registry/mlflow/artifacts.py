"""Queries on the files that clients leave."""

from collections.abc import Collection, Sequence

from sqlalchemy import delete, func, select
from sqlalchemy.dialects.postgresql import insert
from sqlalchemy.ext.asyncio import AsyncSession

from registry.tables.mlflow import MlflowArtifactRow


async def one(session: AsyncSession, path: str) -> MlflowArtifactRow | None:
    query = select(MlflowArtifactRow).where(MlflowArtifactRow.path == path)
    return (await session.execute(query.execution_options(populate_existing=True))).scalar_one_or_none()


async def put(session: AsyncSession, row: MlflowArtifactRow) -> None:
    """In the place of an earlier file of this path."""
    values = {
        "digest": row.digest,
        "size": row.size,
        "logged_model": row.logged_model,
        "head": row.head,
        "created_by": row.created_by,
    }
    await session.execute(
        insert(MlflowArtifactRow)
        .values(path=row.path, **values)
        .on_conflict_do_update(index_elements=["path"], set_={**values, "created_at": func.now()})
    )


async def below(session: AsyncSession, folder: str, limit: int) -> Sequence[MlflowArtifactRow]:
    """By path."""
    query = (
        select(MlflowArtifactRow)
        .where(MlflowArtifactRow.path.startswith(f"{folder}/", autoescape=True))
        .order_by(MlflowArtifactRow.path)
        .limit(limit)
    )
    return (await session.execute(query)).scalars().all()


async def of_model(session: AsyncSession, model_id: str, limit: int) -> Sequence[MlflowArtifactRow]:
    """Of a logged model, by path."""
    query = (
        select(MlflowArtifactRow)
        .where(MlflowArtifactRow.logged_model == model_id)
        .order_by(MlflowArtifactRow.path)
        .limit(limit)
    )
    return (await session.execute(query)).scalars().all()


async def remove(session: AsyncSession, paths: Collection[str]) -> None:
    await session.execute(
        delete(MlflowArtifactRow)
        .where(MlflowArtifactRow.path.in_(paths))
        .execution_options(synchronize_session=False)
    )


async def remove_below(session: AsyncSession, folder: str) -> None:
    await session.execute(
        delete(MlflowArtifactRow)
        .where(MlflowArtifactRow.path.startswith(f"{folder}/", autoescape=True))
        .execution_options(synchronize_session=False)
    )
