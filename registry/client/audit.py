"""Calls on the audit trail as a whole: its export, and what was served when."""

from datetime import datetime

from registry.client.call import Call, path, query
from registry.contract.audit import ExportForm, Serving
from registry.contract.pages import Page


def export(
    form: ExportForm = ExportForm.JSONL,
    subject: str | None = None,
    actor: str | None = None,
    action: str | None = None,
    since: datetime | None = None,
    until: datetime | None = None,
) -> Call[bytes]:
    """Oldest first, for `Client.pieces`: it is as long as the trail. Filters are those of `access.audit`."""
    return Call(
        "GET",
        path("audit", "export"),
        bytes,
        query=query(
            format=form,
            subject=subject,
            actor=actor,
            action=action,
            since=since.isoformat() if since else None,
            until=until.isoformat() if until else None,
        ),
    )


def serving(
    environment: str, at: datetime, page_token: str | None = None, limit: int = 100
) -> Call[Page[Serving]]:
    """What every deployment of the environment served at a moment, by name."""
    return Call(
        "GET",
        path("audit", "serving"),
        Page[Serving],
        query=query(environment=environment, at=at.isoformat(), page_token=page_token, limit=limit),
    )
