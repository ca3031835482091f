"""Queries on the lineage graph."""

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from datetime import datetime

from sqlalchemy.ext.asyncio import AsyncSession

from registry.contract.lineage import NodeKind, Relation
from registry.lineage import statements
from registry.lineage.graph import Edge, Key


@dataclass(frozen=True, slots=True)
class Facts:
    """Of one node. `model`, `environment`: whose it is; None: everyone's."""

    name: str
    phase: str
    at: datetime
    model: str | None
    environment: str | None


async def edges(session: AsyncSession, frontier: Collection[Key], *, forward: bool) -> Sequence[Edge]:
    """All that leave the frontier, in a stable order."""
    found = []
    for kind, steps in (statements.DESCENDANTS if forward else statements.ANCESTORS).items():
        ids = sorted(key.id for key in frontier if key.kind is kind)
        for other, statement in steps if ids else ():
            first, second = (kind, other) if forward else (other, kind)
            found += [
                Edge(Key(first, source), Key(second, target), Relation(relation))
                for source, target, relation in await session.execute(statement, {"ids": ids})
            ]
    return sorted(found, key=lambda edge: (edge.source, edge.target, edge.relation))


async def facts(session: AsyncSession, kind: NodeKind, ids: Collection[str]) -> dict[str, Facts]:
    """By id. What is only a text (commits, runs) has none."""
    statement = statements.FACTS.get(kind)
    if statement is None:
        return {}
    rows = await session.execute(statement, {"ids": sorted(ids)})
    return {row.id: Facts(row.name, row.phase, row.at, row.model, row.environment) for row in rows}


async def commits_like(session: AsyncSession, prefix: str, limit: int) -> Sequence[str]:
    """Commits of versions that begin with `prefix`, in alphabetical order: the same one is the first."""
    escaped = prefix.replace("\\", "\\\\").replace("%", "\\%").replace("_", "\\_")
    found = await session.execute(statements.COMMITS_LIKE, {"pattern": f"{escaped}%", "limit": limit})
    return list(found.scalars())


async def run_exists(session: AsyncSession, run: str) -> bool:
    return (await session.execute(statements.RUN, {"run": run})).scalar_one_or_none() is not None


async def version_id(session: AsyncSession, model: str, number: int) -> str | None:
    found: str | None = (
        await session.execute(statements.VERSION, {"model": model, "number": number})
    ).scalar_one_or_none()
    return found


async def release_id(session: AsyncSession, environment: str, name: str, number: int) -> str | None:
    found: str | None = (
        await session.execute(
            statements.RELEASE, {"environment": environment, "name": name, "number": number}
        )
    ).scalar_one_or_none()
    return found
