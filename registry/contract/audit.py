"""Audit: who changed what, from what to what, why, and through which door."""

from datetime import datetime

from registry.contract.wire import Wire


class AuditEntry(Wire):
    """`before` and `after` are the resource's own representation, or None at its ends."""

    id: int
    at: datetime
    actor: str
    action: str
    subject: str
    before: dict[str, object] | None
    after: dict[str, object] | None
    reason: str
    via: str
    request_id: str | None


class Served(Wire):
    """What a deployment served at a moment: the route in force then."""

    deployment: str
    at: datetime
    generation: int
    arms: dict[str, int]
