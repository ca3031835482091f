"""Versions as people see them, with what other rows say of them: aliases, and where they are in use."""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence

from registry.contract.versions import Version, VersionStage
from registry.edge.principal import Principal
from registry.edge.scopes import Referrer, told
from registry.edge.unit import Unit
from registry.models import repository, version_queries
from registry.models.represent import represent_version
from registry.models.version_queries import Use
from registry.tables.models import VersionRow

RETIRED = (VersionStage.QUARANTINED, VersionStage.ARCHIVED)


async def versions(unit: Unit, rows: Sequence[VersionRow]) -> list[Version]:
    """In the given order; a fixed number of queries, however many there are."""
    named: dict[str, list[str]] = defaultdict(list)
    for alias in await repository.aliases_of(unit.session, {row.model for row in rows}):
        named[f"{alias.model}@{alias.version}"].append(alias.name)
    retired = {row.id: named[row.ref] for row in rows if row.phase in RETIRED}
    warned = await warnings(unit, retired)
    return [represent_version(row, named[row.ref], warned.get(row.id, ())) for row in rows]


async def version(unit: Unit, row: VersionRow) -> Version:
    (made,) = await versions(unit, [row])
    return made


async def serving(unit: Unit, version_id: str) -> Sequence[str]:
    """Sentences that name each deployment and release that an arm of this version is part of."""
    used = await version_queries.uses(unit.session, [version_id])
    return told(unit.principal, [use.referrer for use in used])


async def warnings(unit: Unit, retired: Mapping[str, Sequence[str]]) -> Mapping[str, Sequence[str]]:
    """By id: where versions are still in use that should not be. `retired`: by id, names of aliases."""
    if not retired:
        return {}
    return warned(retired, await version_queries.uses(unit.session, retired), unit.principal)


def warned(
    retired: Mapping[str, Sequence[str]], uses: Iterable[Use], principal: Principal
) -> Mapping[str, Sequence[str]]:
    used: dict[str, list[Referrer]] = defaultdict(list)
    for use in uses:
        used[use.version_id].append(use.referrer)
    return {
        version: [*told(principal, used[version]), *(f"the alias {alias} names it" for alias in aliases)]
        for version, aliases in retired.items()
    }
