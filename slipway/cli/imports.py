"""slipway import …"""

import re
from typing import Annotated

import typer

from registry.client.secrets import masked
from slipway.cli.output import Column, Form, Output, bars, hint, rows
from slipway.cli.session import client, pairs
from slipway.cli.version import dataset_ref
from slipway.importing import Imported, State, Wish, bring_over
from slipway.tracking import TrackingServer

app = typer.Typer(help="Bring models over from elsewhere.", no_args_is_help=True)

COLUMNS: list[Column[Imported]] = [
    ("ORIGIN", lambda i: i.origin),
    ("HERE", lambda i: i.target),
    ("STATE", lambda i: i.state),
    ("NOTES", lambda i: "; ".join(i.notes)),
]


@app.callback()
def _group() -> None:
    """A group, although it has one command so far."""


@app.command("mlflow")
def mlflow(
    server: Annotated[str, typer.Option("--from", help="URL of the tracking server")],
    model: Annotated[list[str], typer.Option(help="Only this model; may be repeated")] = [],  # noqa: B006
    rename: Annotated[list[str], typer.Option(help="'OLD NAME=new-name'; may be repeated")] = [],  # noqa: B006
    metrics_on: Annotated[
        str | None,
        typer.Option(
            help="DATASET@VERSION on which the runs' metrics were measured: records them as metrics"
        ),
    ] = None,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Say what would be done, and do nothing")
    ] = False,
    output: Output = Form.TABLE,
) -> int:
    """Copy registered models, versions, files, tags, aliases and lineage from an MLflow tracking server.

    What came over before is left as it is, so this can be repeated. Credentials are those of MLflow's
    clients: MLFLOW_TRACKING_TOKEN, or MLFLOW_TRACKING_USERNAME and MLFLOW_TRACKING_PASSWORD.
    """
    if not re.match(r"https?://[^/]", server):
        raise ValueError(f"{masked(server)!r} is no URL of a tracking server, such as http://mlflow:5000")
    wish = Wish(
        only=frozenset(model),
        renames=pairs(rename),
        metrics_on=dataset_ref(metrics_on) if metrics_on else None,
        dry_run=dry_run,
    )
    done: list[Imported] = []
    with TrackingServer(server) as source, bars() as progress:
        for item in bring_over(client(), source, wish, progress):
            done.append(item)
            hint(f"{item.origin} → {item.target}: {item.state}")
    rows(done, COLUMNS, output)
    counts = {state: sum(item.state is state for item in done) for state in State}
    hint(", ".join(f"{count} {state}" for state, count in counts.items() if count) or "nothing to import")
    return 3 if counts[State.SKIPPED] else 0
