"""Calls on tokens, on who one is, and on the audit trail."""

from datetime import datetime

from registry.client.call import Call, path, query
from registry.contract.audit import AuditEntry
from registry.contract.pages import Page
from registry.contract.tokens import SessionCreate, Token, TokenCreate, TokenRotate, TokenSecret, Whoami
from registry.contract.wire import Command


def whoami() -> Call[Whoami]:
    return Call("GET", path("whoami"), Whoami)


def create_token(body: TokenCreate) -> Call[TokenSecret]:
    return Call("POST", path("tokens"), TokenSecret, body)


def tokens(page_token: str | None = None, limit: int = 100) -> Call[Page[Token]]:
    return Call("GET", path("tokens"), Page[Token], query=query(page_token=page_token, limit=limit))


def rotate_token(token: str, body: TokenRotate) -> Call[TokenSecret]:
    """A new secret with the same rights; the old one works until the grace is over."""
    return Call("POST", path("tokens", token, "rotate"), TokenSecret, body)


def revoke_token(token: str) -> Call[Token]:
    return Call("POST", path("tokens", token, "revoke"), Token, Command())


def create_session(body: SessionCreate) -> Call[TokenSecret]:
    """Sent with the token as bearer; the answer's secret is the session's."""
    return Call("POST", path("sessions"), TokenSecret, body)


def end_session() -> Call[Token]:
    """Sent with the session's secret as bearer."""
    return Call("POST", path("sessions", "end"), Token, Command())


def audit(
    subject: str | None = None,
    actor: str | None = None,
    page_token: str | None = None,
    limit: int = 100,
    action: str | None = None,
    since: datetime | None = None,
    until: datetime | None = None,
) -> Call[Page[AuditEntry]]:
    """Newest first. `subject`: a prefix, such as `deployment:prod/sentiment`. `action`: one of them, or a
    family such as `release.`; `since` is included, `until` is not, and both have a time zone."""
    return Call(
        "GET",
        path("audit"),
        Page[AuditEntry],
        query=query(
            subject=subject,
            actor=actor,
            action=action,
            since=since.isoformat() if since else None,
            until=until.isoformat() if until else None,
            page_token=page_token,
            limit=limit,
        ),
    )
