"""slipway node …"""

import typer

from registry.client import nodes
from registry.contract.nodes import Enrolment, EnrolmentCreate, Invitation, Node
from slipway.cli.output import Column, Form, Output, gone, hint, one, rows
from slipway.cli.session import client, every

app = typer.Typer(help="Serving machines.", no_args_is_help=True)

COLUMNS: list[Column[Node]] = [
    ("NODE", lambda n: n.id),
    ("NAME", lambda n: n.name),
    ("ENVIRONMENT", lambda n: n.environment),
    ("STATE", lambda n: n.state),
    ("ADDRESS", lambda n: n.address),
    ("TARGETS", lambda n: ", ".join(n.targets)),
    ("SLOTS", lambda n: ", ".join(f"{slot.version} {slot.phase}" for slot in n.slots)),
    ("SEEN", lambda n: f"{n.last_seen_at:%H:%M:%S}Z" if n.last_seen_at else None),
    ("SAYS", lambda n: n.says),
]
ENROLMENT: list[Column[Enrolment]] = [
    ("ENVIRONMENT", lambda e: e.environment),
    ("TOKEN", lambda e: e.secret),
    ("EXPIRES", lambda e: f"{e.expires_at:%Y-%m-%d %H:%M}Z"),
    ("INVITATION", lambda e: e.id),
]
INVITATIONS: list[Column[Invitation]] = [
    ("INVITATION", lambda i: i.id),
    ("ENVIRONMENT", lambda i: i.environment),
    ("EXPIRES", lambda i: f"{i.expires_at:%Y-%m-%d %H:%M}Z"),
    ("MADE BY", lambda i: i.created_by),
    ("MADE", lambda i: f"{i.created_at:%Y-%m-%d %H:%M}Z"),
]


@app.command()
def invite(environment: str, expires_in_s: int = 3600, output: Output = Form.TABLE) -> None:
    """Make a one-time token with which a node enrols."""
    body = EnrolmentCreate(environment=environment, expires_in_s=expires_in_s)
    one(client().call(nodes.invite(body)), ENROLMENT, output)
    hint("on the node: SLIPWAY_ENROL_TOKEN=… python -m serving.node --registry URL --name NAME --state DIR")


@app.command()
def invitations(environment: str | None = None, limit: int = 100, output: Output = Form.TABLE) -> None:
    """List one-time tokens with which no node has enrolled yet."""
    rows(every(lambda token: nodes.invitations(environment, token), limit), INVITATIONS, output)


@app.command()
def uninvite(invitation: str, output: Output = Form.TABLE) -> None:
    """Take a one-time token back before a node enrols with it."""
    client().call(nodes.uninvite(invitation))
    gone("invitation", invitation, output)


@app.command("list")
def list_(environment: str | None = None, limit: int = 100, output: Output = Form.TABLE) -> None:
    """List nodes."""
    rows(every(lambda token: nodes.page(environment, token), limit), COLUMNS, output)


@app.command()
def get(node: str, output: Output = Form.TABLE) -> None:
    """Show one node."""
    one(client().call(nodes.get(node)), COLUMNS, output)


@app.command()
def drain(node: str, output: Output = Form.TABLE) -> None:
    """Take a node out of service."""
    one(client().call(nodes.drain(node)), COLUMNS, output)


@app.command()
def undrain(node: str, output: Output = Form.TABLE) -> None:
    """Put a node back into service."""
    one(client().call(nodes.undrain(node)), COLUMNS, output)
