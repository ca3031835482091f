"""Audit: who changed what, from what to what, why, and through which door."""

from datetime import datetime
from enum import StrEnum

from registry.contract.routes import RouteArm
from registry.contract.wire import Wire


class ExportForm(StrEnum):
    """Of an exported audit trail: for spreadsheets, or one JSON object a line."""

    CSV = "csv"
    JSONL = "jsonl"


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


class NodeThen(Wire):
    """What one node had confirmed at a moment: the newest generation that it had switched to by then."""

    name: str
    generation: int
    switched_at: datetime


class RolledBack(Wire):
    """The receipt of the rollback that a route came from."""

    id: str
    asked_at: datetime
    asked_by: str
    reason: str


class Serving(Wire):
    """What one deployment served at a moment.

    `arms` is what the registry wanted since `since`; `nodes` what each node itself had confirmed by then: one
    whose `generation` is lower still served what that generation says.
    """

    deployment: str
    model: str
    at: datetime
    generation: int
    since: datetime
    cause: str
    actor: str
    reason: str
    release: int | None
    rollback: RolledBack | None
    arms: tuple[RouteArm, ...]
    nodes: tuple[NodeThen, ...]
