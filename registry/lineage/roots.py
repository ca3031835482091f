"""From what people write, `version:sentiment@7`, to a node of the graph."""

import re
from collections.abc import Callable
from typing import TypeVar, assert_never

from sqlalchemy.ext.asyncio import AsyncSession

from registry.contract.identity import parse_deployment, parse_version
from registry.contract.lineage import NodeKind
from registry.errors import Invalid, NotFound
from registry.lineage import repository
from registry.lineage.graph import Key

FORMS = (
    "commit:HASH, run:ID, dataset:NAME@VERSION, version:MODEL@NUMBER, build:ID, engine:ID, "
    "release:ENVIRONMENT/NAME#NUMBER"
)
SHORTEST_PREFIX = 4
SHOWN = 5
T = TypeVar("T")
_NUMBERED = re.compile(r"(?P<deployment>[^#]+)#(?P<number>[1-9][0-9]{0,8})")


async def resolve(session: AsyncSession, ref: str) -> Key:
    """Raises Invalid for another form, NotFound."""
    prefix, _, name = ref.partition(":")
    try:
        kind = NodeKind(prefix)
    except ValueError:
        raise Invalid(f"{ref!r} is no node of the lineage graph", f"write one of {FORMS}") from None
    if not name:
        raise Invalid(f"{ref!r} names no {kind}", f"write one of {FORMS}")
    found = await _find(session, kind, name)
    if found is None:
        raise missing(ref)
    return Key(kind, found)


def missing(ref: str, why: str = "") -> NotFound:
    kind, _, name = ref.partition(":")
    return NotFound(
        f"there is no {kind} {name}{why}", "check its name; lists and searches show what there is"
    )


async def _find(session: AsyncSession, kind: NodeKind, name: str) -> str | None:
    match kind:
        case NodeKind.COMMIT:
            return await _commit(session, name)
        case NodeKind.RUN:
            return name if await repository.run_exists(session, name) else None
        case NodeKind.VERSION:
            version = _parsed(parse_version, name)
            return await repository.version_id(session, version.model, version.number)
        case NodeKind.DATASET:
            dataset = _parsed(parse_version, name)
            key = f"{dataset.model}@{dataset.number}"
            return key if await repository.facts(session, kind, [key]) else None
        case NodeKind.RELEASE:
            return await _release(session, name)
        case NodeKind.BUILD | NodeKind.ENGINE:
            return name if await repository.facts(session, kind, [name]) else None
        case _:
            assert_never(kind)


async def _commit(session: AsyncSession, name: str) -> str | None:
    """The commit, or the only one that begins so."""
    found = await repository.commits_like(session, name, SHOWN + 1)
    if name in found:
        return name
    if len(name) < SHORTEST_PREFIX or not found:
        return None
    if len(found) > 1:
        more = " and others" if len(found) > SHOWN else ""
        raise Invalid(
            f"{len(found[:SHOWN])} commits begin with {name}: {', '.join(found[:SHOWN])}{more}",
            "write more of the commit's hash",
        )
    return found[0]


async def _release(session: AsyncSession, name: str) -> str | None:
    found = _NUMBERED.fullmatch(name)
    if found is None:
        raise Invalid(f"{name!r} is no release", "write ENVIRONMENT/NAME#NUMBER, such as prod/sentiment#3")
    deployment = _parsed(parse_deployment, found["deployment"])
    return await repository.release_id(session, deployment.environment, deployment.name, int(found["number"]))


def _parsed(parse: Callable[[str], T], name: str) -> T:
    try:
        return parse(name)
    except ValueError as error:
        raise Invalid(str(error), f"write one of {FORMS}") from error
