"""slipway dataset …"""

from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated

import typer

from registry.client import datasets
from registry.contract.datasets import Dataset, DatasetKind, DatasetPatch, RowForm
from slipway.cli.output import Column, Form, Output, bars, hint, one, rows
from slipway.cli.session import client, every
from slipway.cli.version import dataset_ref

app = typer.Typer(help="Calibration, validation and reference data.", no_args_is_help=True)

COLUMNS: list[Column[Dataset]] = [
    ("DATASET", lambda d: f"{d.name}@{d.version}"),
    ("KIND", lambda d: d.kind),
    ("FORM", lambda d: d.form),
    ("ROWS", lambda d: d.rows),
    ("SHARDS", lambda d: len(d.shards)),
    ("CREATED", lambda d: f"{d.created_at:%Y-%m-%d %H:%M}Z"),
    ("BY", lambda d: d.created_by),
    ("RETAINED UNTIL", lambda d: f"{d.retain_until:%Y-%m-%d %H:%M}Z" if d.retain_until else None),
]


@app.command()
def create(
    name: str,
    shards: Annotated[list[Path], typer.Argument(help="tar shards (raw) or npz shards (tensors)")],
    index: Annotated[Path, typer.Option(help="JSONL: key, label, split of every row")],
    kind: Annotated[DatasetKind, typer.Option()],
    form: Annotated[RowForm, typer.Option()],
    provenance: str = "",
    retain_until: Annotated[datetime | None, typer.Option(help="UTC; after it the data set may go")] = None,
    output: Output = Form.TABLE,
) -> None:
    """Upload shards and record the data set's next version."""
    with index.open("rb") as lines:
        count = sum(1 for line in lines if line.strip())
    with bars() as progress:
        made = client().dataset(
            name,
            kind,
            form,
            {path.name: path for path in shards},
            index,
            count,
            provenance=provenance,
            retain_until=None if retain_until is None else retain_until.replace(tzinfo=UTC),
            progress=progress,
        )
    one(made, COLUMNS, output)


@app.command("list")
def list_(limit: int = 100, output: Output = Form.TABLE) -> None:
    """List data sets."""
    rows(every(datasets.page, limit), COLUMNS, output)


@app.command()
def get(dataset: str, output: Output = Form.TABLE) -> None:
    """Show NAME@VERSION."""
    ref = dataset_ref(dataset)
    one(client().call(datasets.get(ref.name, ref.version)), COLUMNS, output)


@app.command()
def retain(
    dataset: str,
    until: Annotated[datetime | None, typer.Option(help="UTC; left out: for good")] = None,
    output: Output = Form.TABLE,
) -> None:
    """Say how long NAME@VERSION stays. After that the collector deletes it, unless something refers to it."""
    ref = dataset_ref(dataset)
    found = client().call(datasets.get(ref.name, ref.version))
    body = DatasetPatch(retain_until=None if until is None else until.replace(tzinfo=UTC))
    one(client().call(datasets.patch(ref.name, ref.version, body, found.revision)), COLUMNS, output)


@app.command()
def delete(dataset: str) -> None:
    """Delete NAME@VERSION, which nothing refers to. Its bytes go with the collector."""
    ref = dataset_ref(dataset)
    found = client().call(datasets.get(ref.name, ref.version))
    client().call(datasets.delete(ref.name, ref.version, found.revision))
    hint(f"{dataset} is gone")
