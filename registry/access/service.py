"""Use cases of tokens."""

from datetime import datetime, timedelta

from sqlalchemy import func
from sqlalchemy.sql.elements import ColumnElement

from registry.access import repository
from registry.contract.pages import Page
from registry.contract.tokens import (
    Role,
    SessionCreate,
    Token,
    TokenCreate,
    TokenRotate,
    TokenSecret,
    Whoami,
)
from registry.edge.pages import page
from registry.edge.principal import Principal, hash_secret, new_secret
from registry.edge.unit import Unit
from registry.errors import Conflict, Forbidden, Invalid, NotFound, Unauthenticated
from registry.tables.access import TokenRow
from registry.tables.base import new_id

SESSION_PREFIX = "ses_"
LONGEST_S = 100 * 366 * 86_400


async def create(unit: Unit, body: TokenCreate) -> TokenSecret:
    """The secret is in this answer and nowhere else. Raises Forbidden beyond the caller's own scope."""
    if Role.NODE in body.roles:
        raise Invalid(
            "a token of the role node belongs to one node",
            "let the node enrol: slipway node invite ENVIRONMENT",
        )
    _require_within(unit.principal, body.models, body.environments)
    row = TokenRow(
        id=new_id("tok"),
        name=body.name,
        roles=sorted(set(body.roles)),
        models=sorted(set(body.models)),
        environments=sorted(set(body.environments)),
        created_by=unit.actor,
    )
    if body.expires_in_s is not None:
        row.expires_at = _from_now(body.expires_in_s)
    made = await _keep(unit, row)
    unit.audit("token.create", f"token:{row.id}", None, made.token)
    return made


async def rotate(unit: Unit, token_id: str, body: TokenRotate) -> TokenSecret:
    """A new token of the same name and rights; the old one ends after the grace.

    Raises NotFound, and Conflict for what is not rotated.
    """
    old = await _token(unit, token_id)
    if old.id.startswith(SESSION_PREFIX) or old.node_id is not None:
        raise Conflict(
            f"{old.id} is a {'session' if old.node_id is None else 'node'}'s token, which is not rotated",
            "a session ends by itself; a node enrols again: slipway node invite ENVIRONMENT",
        )
    if old.revoked_at is not None or await repository.expired(unit.session, old):
        raise Conflict(f"{old.id} does not work any more", "make a new token: slipway token create NAME")
    if await repository.replaced(unit.session, old.id):
        raise Conflict(
            f"{old.id} was rotated already", "rotate its successor, or revoke that first where it was lost"
        )
    before = represent(old)
    row = TokenRow(
        id=new_id("tok"),
        name=old.name,
        roles=old.roles,
        models=old.models,
        environments=old.environments,
        replaces=old.id,
        created_by=unit.actor,
    )
    if body.expires_in_s is not None:
        row.expires_at = _from_now(body.expires_in_s)
    elif old.expires_at is not None:
        row.expires_at = func.now() + (old.expires_at - old.created_at)
    await repository.end_within(unit.session, old, body.grace_s)
    made = await _keep(unit, row)
    unit.audit("token.rotate", f"token:{old.id}", before, represent(old), f"replaced by {row.id}")
    unit.audit("token.create", f"token:{row.id}", None, made.token, f"replaces {old.id}")
    return made


async def create_session(unit: Unit, body: SessionCreate) -> TokenSecret:
    """A revocable swap of the caller's token, with its name and rights. Raises Forbidden."""
    principal = unit.principal
    if principal.node_id is not None:
        raise Forbidden("a node's token makes no sessions", "sign in with a person's token")
    if principal.token_id.startswith(SESSION_PREFIX):
        raise Forbidden("a session makes no sessions", "sign in with the token itself")
    end = await repository.session_end(unit.session, principal.token_id, body.expires_in_s)
    if end is None:
        raise Unauthenticated(f"the token {principal.name} was revoked", "ask an admin for a new one")
    row = TokenRow(
        id=new_id(SESSION_PREFIX.rstrip("_")),
        name=principal.name,
        roles=sorted(principal.roles),
        models=sorted(principal.models),
        environments=sorted(principal.environments),
        expires_at=end,
        created_by=principal.token_id,
    )
    made = await _keep(unit, row)
    unit.audit("session.create", f"token:{row.id}", None, made.token)
    return made


async def end_session(unit: Unit) -> Token:
    """Ends the caller's own session. Raises Conflict when the caller uses a token."""
    if not unit.principal.token_id.startswith(SESSION_PREFIX):
        raise Conflict("the caller uses a token, not a session", "revoke tokens with slipway token revoke")
    row = await repository.token(unit.session, unit.principal.token_id)
    assert row is not None
    return await _revoke(unit, row)


async def listing(unit: Unit, after: str | None, limit: int) -> Page[Token]:
    """Oldest first; those within the caller's scope."""
    principal = unit.principal
    rows = await repository.tokens(unit.session, after, limit, principal.models, principal.environments)
    return page(rows, limit, represent, lambda row: row.id)


async def revoke(unit: Unit, token_id: str) -> Token:
    """From now on the token and its sessions are refused. Repeating it changes nothing. Raises NotFound."""
    return await _revoke(unit, await _token(unit, token_id))


def whoami(unit: Unit) -> Whoami:
    principal = unit.principal
    return Whoami(
        name=principal.name,
        roles=tuple(sorted(principal.roles)),
        models=tuple(sorted(principal.models)),
        environments=tuple(sorted(principal.environments)),
        registry_id=unit.identity.registry_id,
    )


def represent(row: TokenRow) -> Token:
    return Token.model_validate(
        {
            "id": row.id,
            "name": row.name,
            "roles": row.roles,
            "models": row.models,
            "environments": row.environments,
            "expires_at": row.expires_at,
            "last_used_at": row.last_used_at,
            "revoked_at": row.revoked_at,
            "created_at": row.created_at,
            "created_by": row.created_by,
            "node": row.node_id,
            "replaces": row.replaces,
        }
    )


async def _keep(unit: Unit, row: TokenRow) -> TokenSecret:
    secret = new_secret()
    row.hash = hash_secret(secret)
    unit.session.add(row)
    await unit.session.flush()
    await unit.session.refresh(row)
    return TokenSecret(token=represent(row), secret=secret)


async def _token(unit: Unit, token_id: str) -> TokenRow:
    """Locked. Raises NotFound, also for one beyond the caller's own scope."""
    row = await repository.token(unit.session, token_id)
    if row is None or not _within(unit.principal, row.models, row.environments):
        raise NotFound(f"there is no token {token_id}", "GET /v1/tokens lists them")
    return row


async def _revoke(unit: Unit, row: TokenRow) -> Token:
    before = represent(row)
    if row.revoked_at is not None:
        return before
    await repository.revoke(unit.session, row)
    made = represent(row)
    unit.audit("token.revoke", f"token:{row.id}", before, made)
    return made


def _from_now(seconds: int) -> ColumnElement[datetime]:
    if seconds > LONGEST_S:
        raise Invalid(
            f"expires_in_s is {seconds}, more than a century",
            "leave expires_in_s out for a token that does not expire",
        )
    return func.now() + timedelta(seconds=seconds)


def _within(principal: Principal, models: list[str], environments: list[str]) -> bool:
    return all(
        not own or (bool(asked) and own.issuperset(asked))
        for own, asked in ((principal.models, models), (principal.environments, environments))
    )


def _require_within(principal: Principal, models: tuple[str, ...], environments: tuple[str, ...]) -> None:
    if not _within(principal, list(models), list(environments)):
        raise Forbidden(
            f"{principal.limits}, so it can't make one that reaches further",
            "name models and environments within that (empty means all), or ask an unlimited admin",
        )
