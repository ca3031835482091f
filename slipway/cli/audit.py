"""slipway audit …"""

import sys
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated

import typer

from registry.client import access, deployments
from registry.client import audit as calls
from registry.contract.audit import AuditEntry, ExportForm, Served, Serving
from slipway.cli.output import Column, Form, Output, one, rows
from slipway.cli.session import client, every

app = typer.Typer(help="Who changed what, and what was served when.", no_args_is_help=True)

Subject = Annotated[str | None, typer.Option(help="A prefix: deployment:prod/sentiment")]
Actor = Annotated[str | None, typer.Option(help="Whose changes")]
Action = Annotated[str | None, typer.Option(help="release.promote, or a family: release.")]
Since = Annotated[str | None, typer.Option(help="RFC 3339; from this moment on")]
Until = Annotated[str | None, typer.Option(help="RFC 3339; before this moment")]

COLUMNS: list[Column[AuditEntry]] = [
    ("AT", lambda a: f"{a.at:%Y-%m-%d %H:%M:%S}Z"),
    ("ACTOR", lambda a: a.actor),
    ("VIA", lambda a: a.via),
    ("ACTION", lambda a: a.action),
    ("SUBJECT", lambda a: a.subject),
    ("REASON", lambda a: a.reason),
]
SERVED: list[Column[Served]] = [
    ("DEPLOYMENT", lambda s: s.deployment),
    ("AT", lambda s: f"{s.at:%Y-%m-%d %H:%M:%S}Z"),
    ("GENERATION", lambda s: s.generation),
    ("ARMS", lambda s: ", ".join(f"{arm} {share / 100:g} %" for arm, share in s.arms.items())),
]
SERVING: list[Column[Serving]] = [
    ("DEPLOYMENT", lambda s: s.deployment),
    ("ARMS", lambda s: ", ".join(f"{a.version} {a.share / 100:g} %" for a in s.arms if a.share)),
    ("GENERATION", lambda s: s.generation),
    ("SINCE", lambda s: f"{s.since:%Y-%m-%d %H:%M:%S}Z"),
    ("CAUSE", lambda s: f"{s.cause} by {s.actor}"),
    ("NODES", lambda s: f"{sum(n.generation == s.generation for n in s.nodes)} of {len(s.nodes)} confirmed"),
    ("ROLLBACK", lambda s: s.rollback.id if s.rollback else None),
]


def moment(text: str) -> datetime:
    """RFC 3339; without a time zone it is UTC. Raises ValueError."""
    try:
        found = datetime.fromisoformat(text)
    except ValueError:
        raise ValueError(f"{text!r} is not a moment; write 2026-01-31T12:00:00Z") from None
    return found if found.tzinfo is not None else found.replace(tzinfo=UTC)


def _maybe(text: str | None) -> datetime | None:
    return None if text is None else moment(text)


@app.command("list")
def list_(
    subject: Subject = None,
    actor: Actor = None,
    action: Action = None,
    since: Since = None,
    until: Until = None,
    limit: int = 50,
    output: Output = Form.TABLE,
) -> None:
    """List changes, newest first."""
    start, end = _maybe(since), _maybe(until)
    rows(
        every(
            lambda token: access.audit(subject, actor, token, action=action, since=start, until=end), limit
        ),
        COLUMNS,
        output,
    )


@app.command()
def export(
    form: Annotated[ExportForm, typer.Option("--format", help="For spreadsheets, or for programs")] = (
        ExportForm.JSONL
    ),
    to: Annotated[Path | None, typer.Option(help="A file; without it, standard output")] = None,
    subject: Subject = None,
    actor: Actor = None,
    action: Action = None,
    since: Since = None,
    until: Until = None,
) -> None:
    """Write the trail, oldest first, with what was before and after each change, in the form of --format."""
    asked = calls.export(form, subject, actor, action, _maybe(since), _maybe(until))
    pieces = client().call.pieces(asked)
    if to is None:
        for piece in pieces:
            sys.stdout.buffer.write(piece)
        sys.stdout.buffer.flush()
        return
    with to.open("wb") as file:
        for piece in pieces:
            file.write(piece)


@app.command()
def serving(
    environment: str,
    at: Annotated[str | None, typer.Option(help="RFC 3339; without it, now")] = None,
    limit: int = 1000,
    output: Output = Form.TABLE,
) -> None:
    """What every deployment of ENVIRONMENT served at a moment."""
    then = datetime.now(UTC) if at is None else moment(at)
    rows(every(lambda token: calls.serving(environment, then, token), limit), SERVING, output)


@app.command()
def served(deployment: str, at: str, output: Output = Form.TABLE) -> None:
    """What ENVIRONMENT/NAME served at a moment (RFC 3339)."""
    one(client().call(deployments.served(deployment, at)), SERVED, output)
