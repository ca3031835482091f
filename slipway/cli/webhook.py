"""slipway webhook …"""

from typing import Annotated

import typer

from registry.client import events
from registry.contract.webhooks import (
    Attempt,
    Delivery,
    DeliveryState,
    Replayed,
    Webhook,
    WebhookCreate,
    WebhookPatch,
    WebhookRotate,
    WebhookSecret,
)
from slipway.cli.output import Column, Form, Output, gone, hint, one, rows
from slipway.cli.session import client, every

app = typer.Typer(help="Send events to a receiver of yours.", no_args_is_help=True)

Types = Annotated[list[str], typer.Option("--type", help="release.phase_changed, or release.* for a kind")]
Deployments = Annotated[
    list[str], typer.Option("--deployment", help="prod/sentiment, or prod/* for an environment")
]

COLUMNS: list[Column[Webhook]] = [
    ("WEBHOOK", lambda w: w.id),
    ("URL", lambda w: w.url),
    ("TYPES", lambda w: ", ".join(w.types) or "all"),
    ("DEPLOYMENTS", lambda w: ", ".join(w.deployments) or "all"),
    ("STATE", lambda w: f"{w.state} ({w.state_reason})" if w.state_reason else w.state),
    ("DESCRIPTION", lambda w: w.description),
]
SECRET: list[Column[WebhookSecret]] = [
    ("WEBHOOK", lambda w: w.webhook.id),
    ("URL", lambda w: w.webhook.url),
    ("SECRET", lambda w: w.secret),
]
DELIVERIES: list[Column[Delivery]] = [
    ("EVENT", lambda d: d.event),
    ("TYPE", lambda d: d.type),
    ("DEPLOYMENT", lambda d: d.deployment),
    ("STATE", lambda d: d.state),
    ("ATTEMPTS", lambda d: d.attempts),
    ("LAST", lambda d: f"{d.last_attempt_at:%Y-%m-%d %H:%M:%S}Z" if d.last_attempt_at else None),
    ("STATUS", lambda d: d.status),
    ("ERROR", lambda d: d.error),
]
ATTEMPT: list[Column[Attempt]] = [
    ("DELIVERED", lambda a: a.delivered),
    ("STATUS", lambda a: a.status),
    ("TOOK", lambda a: f"{a.took_ms:.0f} ms"),
    ("ERROR", lambda a: a.error),
]
REPLAYED: list[Column[Replayed]] = [("PENDING AGAIN", lambda r: r.count)]


@app.command()
def create(
    url: str,
    type_: Types = [],  # noqa: B006
    deployment: Deployments = [],  # noqa: B006
    description: str = "",
    output: Output = Form.TABLE,
) -> None:
    """Send events to URL from now on. The secret that signs them is shown once."""
    body = WebhookCreate(url=url, types=tuple(type_), deployments=tuple(deployment), description=description)
    one(client().call(events.create_webhook(body)), SECRET, output)
    hint("keep the secret: receivers check the header webhook-signature with it, and it is not shown again")


@app.command("list")
def list_(limit: int = 100, output: Output = Form.TABLE) -> None:
    """List webhooks."""
    rows(every(events.webhooks, limit), COLUMNS, output)


@app.command()
def get(webhook: str, output: Output = Form.TABLE) -> None:
    """Show one webhook."""
    one(client().call(events.webhook(webhook)), COLUMNS, output)


@app.command()
def change(webhook: str, url: str, output: Output = Form.TABLE) -> None:
    """Send to another URL, with the same secret; what is pending goes there too."""
    revision = client().call(events.webhook(webhook)).revision
    one(client().call(events.patch_webhook(webhook, WebhookPatch(url=url), revision)), COLUMNS, output)


@app.command()
def rotate(
    webhook: str,
    grace_s: Annotated[int, typer.Option(help="How long the old secret goes on signing too")] = 86_400,
    output: Output = Form.TABLE,
) -> None:
    """Sign with another secret, shown once; for a while with both, so that no receiver misses a message."""
    one(client().call(events.rotate_webhook(webhook, WebhookRotate(grace_s=grace_s))), SECRET, output)


@app.command()
def delete(webhook: str, output: Output = Form.TABLE) -> None:
    """Delete a webhook with its deliveries."""
    revision = client().call(events.webhook(webhook)).revision
    client().call(events.delete_webhook(webhook, revision))
    gone("webhook", webhook, output)


@app.command()
def pause(webhook: str, reason: str = "", output: Output = Form.TABLE) -> None:
    """Send nothing; events are kept for it."""
    one(client().call(events.pause_webhook(webhook, reason)), COLUMNS, output)


@app.command()
def resume(webhook: str, reason: str = "", output: Output = Form.TABLE) -> None:
    """Send what was kept, and go on."""
    one(client().call(events.resume_webhook(webhook, reason)), COLUMNS, output)


@app.command()
def test(webhook: str, output: Output = Form.TABLE) -> int:
    """Send a test event now, and say what the receiver answered."""
    made = client().call(events.test_webhook(webhook))
    one(made, ATTEMPT, output)
    return 0 if made.delivered else 3


@app.command()
def deliveries(
    webhook: str,
    state: Annotated[DeliveryState | None, typer.Option(help="dead: those that were given up")] = None,
    limit: int = 50,
    output: Output = Form.TABLE,
) -> None:
    """List deliveries, newest first."""
    rows(every(lambda token: events.deliveries(webhook, state, token), limit), DELIVERIES, output)


@app.command()
def replay(
    webhook: str,
    event: Annotated[str | None, typer.Argument(help="One event's id; without it: all dead ones")] = None,
    output: Output = Form.TABLE,
) -> None:
    """Send what was given up once more, under the same ids."""
    one(client().call(events.replay(webhook, event)), REPLAYED, output)
