"""slipway audit …"""

import typer

from registry.client import access, deployments
from registry.contract.audit import AuditEntry, Served
from slipway.cli.output import Column, Form, Output, one, rows
from slipway.cli.session import client, every

app = typer.Typer(help="Who changed what, and what was served when.", no_args_is_help=True)

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


@app.command("list")
def list_(
    subject: str | None = None, actor: str | None = None, limit: int = 50, output: Output = Form.TABLE
) -> None:
    """List changes, newest first. SUBJECT is a prefix such as deployment:prod/sentiment."""
    rows(every(lambda token: access.audit(subject, actor, token), limit), COLUMNS, output)


@app.command()
def served(deployment: str, at: str, output: Output = Form.TABLE) -> None:
    """What ENVIRONMENT/NAME served at a moment (RFC 3339)."""
    one(client().call(deployments.served(deployment, at)), SERVED, output)
