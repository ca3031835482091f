"""Versions as people see them, with what other rows say of them: aliases, and where they are in use."""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import Any

from sqlalchemy import Row
from sqlalchemy.ext.asyncio import AsyncSession

from registry.contract.versions import Version, VersionStage
from registry.models import repository, version_queries
from registry.models.represent import represent_version
from registry.tables.models import VersionRow

RETIRED = (VersionStage.QUARANTINED, VersionStage.ARCHIVED)


async def versions(session: AsyncSession, rows: Sequence[VersionRow]) -> list[Version]:
    """In the given order; a fixed number of queries, however many there are."""
    named: dict[str, list[str]] = defaultdict(list)
    for alias in await repository.aliases_of(session, {row.model for row in rows}):
        named[f"{alias.model}@{alias.version}"].append(alias.name)
    return await _told(session, rows, named)


async def version(session: AsyncSession, row: VersionRow) -> Version:
    (made,) = await versions(session, [row])
    return made


async def found(session: AsyncSession, rows: Sequence[Row[Any]]) -> list[Version]:
    """Rows of a search, which bring the names of their aliases with them."""
    return await _told(session, rows, {f"{row.model}@{row.number}": row.alias_names for row in rows})


async def _told(
    session: AsyncSession, rows: Sequence[Any], named: Mapping[str, Sequence[str]]
) -> list[Version]:
    retired = [row.id for row in rows if row.phase in RETIRED]
    used = await version_queries.uses(session, retired) if retired else {}
    made = []
    for row in rows:
        aliases = named.get(f"{row.model}@{row.number}", ())
        warnings: list[str] = []
        if row.phase in RETIRED:
            warnings = [*used.get(row.id, ()), *(f"the alias {alias} names it" for alias in aliases)]
        made.append(represent_version(row, aliases, warnings))
    return made
