"""slipway event …"""

from typing import Annotated

import typer

from registry.client import events
from registry.contract.events import Event
from slipway.cli.output import Column, Form, Output, hint, rows
from slipway.cli.session import client

app = typer.Typer(help="What happened, in order.", no_args_is_help=True)

Types = Annotated[list[str], typer.Option("--type", help="release.phase_changed, or release.* for a kind")]
Deployments = Annotated[
    list[str], typer.Option("--deployment", help="prod/sentiment, or prod/* for an environment")
]
PAGE = 1000


def _told(event: Event) -> str:
    """The facts in one line, without what other columns say."""
    facts = event.data.model_dump(mode="json")
    return " ".join(f"{name}={value}" for name, value in facts.items() if value not in (None, "", [], ()))


COLUMNS: list[Column[Event]] = [
    ("ID", lambda e: e.id),
    ("AT", lambda e: f"{e.at:%Y-%m-%d %H:%M:%S}Z"),
    ("TYPE", lambda e: e.type),
    ("SUBJECT", lambda e: e.subject),
    ("BY", lambda e: e.actor),
    ("FACTS", _told),
]


@app.command("list")
def list_(
    after: Annotated[str | None, typer.Option(help="The id to go on from")] = None,
    type_: Types = [],  # noqa: B006
    deployment: Deployments = [],  # noqa: B006
    limit: int = 100,
    output: Output = Form.TABLE,
) -> None:
    """List events, oldest first, from the oldest that is kept or behind --after."""
    found: list[Event] = []
    while len(found) < limit:
        wanted = min(PAGE, limit - len(found))
        page = client().call(events.page(after, type_, deployment, wanted))
        found += page.items
        after = page.after
        if len(page.items) < wanted:
            break
    rows(found, COLUMNS, output)
    hint(f"go on with: slipway event list --after {after}")


@app.command()
def tail(
    after: Annotated[str | None, typer.Option(help="The id to go on from; without it: from now on")] = None,
    type_: Types = [],  # noqa: B006
    deployment: Deployments = [],  # noqa: B006
    limit: Annotated[int | None, typer.Option(help="End after so many")] = None,
    output: Output = Form.TABLE,
) -> None:
    """Follow events as they happen, until Ctrl-C. A registry that restarts is waited for."""
    left = limit
    for event in events.follow(client().call, after, type_, deployment):
        if output is Form.TABLE:
            at = f"{event.at:%H:%M:%S}Z"
            line = f"{event.id:<8} {at} {event.type:<24} {event.subject}  {_told(event)}"
            print(f"{line}  by {event.actor}", flush=True)
        else:
            print(event.model_dump_json(), flush=True)
        left = None if left is None else left - 1
        if left == 0:
            return
