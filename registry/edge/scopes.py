"""What a path names must be in the token's scope: checked here, once, for every route.

Lists filter by the scope themselves, and what a body or a filter names is checked where it is used. What is
out of scope is answered as what does not exist is: 404, in the same words.
"""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from sqlalchemy import TextClause, text
from sqlalchemy.ext.asyncio import AsyncSession

from registry.edge.principal import Principal
from registry.errors import NotFound

# Path parameter → model and environment of what it names; no row: it does not exist.
OWNERS: Mapping[str, TextClause] = {
    "build": text(
        "SELECT versions.model, NULL FROM builds JOIN versions ON versions.id = builds.version_id "
        "WHERE builds.id = :id"
    ),
    "engine": text(
        "SELECT versions.model, NULL FROM engines JOIN versions ON versions.id = engines.version_id "
        "WHERE engines.id = :id"
    ),
    "arm": text(
        "SELECT versions.model, NULL FROM arms JOIN versions ON versions.id = arms.version_id "
        "WHERE arms.id = :id"
    ),
    # Verifying bytes belongs to no model.
    "task": text(
        "SELECT versions.model, NULL FROM tasks LEFT JOIN builds ON builds.id = tasks.subject_id "
        "LEFT JOIN versions ON versions.id = builds.version_id WHERE tasks.id = :id"
    ),
    "enrolment": text("SELECT NULL, environment FROM enrolments WHERE id = :id"),
    "node": text("SELECT NULL, environment FROM nodes WHERE id = :id"),
    "rollback": text(
        "SELECT deployments.model, deployments.environment FROM rollbacks "
        "JOIN deployments ON deployments.id = rollbacks.deployment_id WHERE rollbacks.id = :id"
    ),
}
_DEPLOYMENT = text("SELECT model FROM deployments WHERE environment = :environment AND name = :name")

ELSEWHERE = "something that the scope of this token does not include refers to it"


class Referrer(NamedTuple):
    """A sentence that names what refers to something, and what that belongs to; None: to everybody."""

    sentence: str
    model: str | None
    environment: str | None


def told(principal: Principal, referrers: Sequence[Referrer]) -> list[str]:
    """Their sentences. That there are others is told, since it decides; what they are is not."""
    seen = [each.sentence for each in referrers if principal.sees(each.model, each.environment)]
    return [*seen, *[ELSEWHERE] * (len(seen) < len(referrers))]


async def admit(session: AsyncSession, principal: Principal, named: Mapping[str, str]) -> None:
    """`named`: the path's parameters. Raises NotFound for what the token's scope does not include.

    A token without limits costs no query.
    """
    if not principal.limited:
        return
    model, environment = named.get("model"), named.get("environment")
    if not principal.sees(model, environment):
        raise _hidden(principal)
    if environment is not None and "name" in named:
        await _admit_deployment(session, principal, environment, named["name"])
    for parameter in OWNERS.keys() & named.keys():
        owner = (await session.execute(OWNERS[parameter], {"id": named[parameter]})).one_or_none()
        if owner is None or not principal.sees(owner[0], owner[1]):
            raise _hidden(principal)


async def _admit_deployment(session: AsyncSession, principal: Principal, environment: str, name: str) -> None:
    found = await session.execute(_DEPLOYMENT, {"environment": environment, "name": name})
    model = found.scalar_one_or_none()
    if model is None or not principal.sees(model, environment):
        raise _hidden(principal)


def _hidden(principal: Principal) -> NotFound:
    return NotFound(
        f"{principal.limits}; there is nothing at this path within that",
        "check the name, or use a token whose scope includes it",
    )
