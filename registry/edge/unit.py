"""The unit of work of one request: its session, its principal, and what follows the commit."""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Annotated, Any

from fastapi import Depends, Request
from pydantic import BaseModel
from sqlalchemy.ext.asyncio import AsyncSession

from registry import outbox
from registry.contract.tokens import Role
from registry.edge.principal import Principal
from registry.edge.resources import Resources
from registry.errors import Conflict, PreconditionRequired, StaleRevision, Unauthenticated
from registry.identity import Identity
from registry.tables.journal import AuditRow, snapshot


@dataclass
class Unit:
    """`after_commit` holds what is best effort: wake-ups for workers. It is sent off after the commit."""

    session: AsyncSession
    resources: Resources
    identity: Identity
    caller: Principal | None = None
    request_id: str | None = None
    via: str = "API"
    after_commit: list[Callable[[], Awaitable[object]]] = field(default_factory=list)

    @property
    def principal(self) -> Principal:
        if self.caller is None:
            raise Unauthenticated("the request has no token", "send the header: Authorization: Bearer TOKEN")
        return self.caller

    @property
    def actor(self) -> str:
        return self.principal.name

    def audit(
        self,
        action: str,
        subject: str,
        before: BaseModel | None,
        after: BaseModel | None,
        reason: str = "",
    ) -> None:
        """Every change writes one entry, in the transaction of the change; the outbox tells what matters."""
        self.session.add(
            AuditRow(
                actor=self.actor,
                action=action,
                subject=subject,
                before=snapshot(before),
                after=snapshot(after),
                reason=reason,
                via=self.via,
                request_id=self.request_id,
            )
        )
        outbox.audited(self.session, action, subject, before, after, actor=self.actor, reason=reason)


# Dependencies are coroutines though they wait for nothing: a plain function would cross to a thread and back.
async def _unit(request: Request) -> Unit:
    unit: Unit = request.state.unit
    return unit


UnitOfWork = Annotated[Unit, Depends(_unit)]


def requires(*roles: Role) -> Any:
    """Dependency of a route: one of the roles, or admin."""

    async def check(unit: UnitOfWork) -> None:
        unit.principal.require(*roles)

    return Depends(check)


def expect_revision(revision: int, expected: int | None, what: str) -> None:
    """For transitions: `expected_revision`, where given, must be the present one. Raises Conflict (409)."""
    if expected is not None and expected != revision:
        raise Conflict(
            f"{what} is at revision {revision}, not at {expected} any more",
            "read it again, look at what changed, and repeat the request with its new revision",
        )


def match_revision(request: Request, revision: int, what: str) -> None:
    """For PATCH, PUT and DELETE: If-Match must name the present revision. 428 absent, 412 stale."""
    given = request.headers.get("if-match")
    if given is None:
        raise PreconditionRequired(
            f"changing {what} needs the header If-Match",
            f'read it first and send its ETag back: If-Match: "{revision}"',
        )
    if given.strip().strip('"') != str(revision) and given.strip() != "*":
        raise StaleRevision(
            f"{what} is at revision {revision}, not at {given.strip()} any more",
            "read it again, look at what changed, and repeat the request with its new ETag",
        )
