"""slipway dataset …"""

from pathlib import Path
from typing import Annotated

import typer

from registry.client import datasets
from registry.contract.datasets import Dataset, DatasetKind, RowForm
from slipway.cli.output import Column, Form, Output, bars, one, rows
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
]


@app.command()
def create(
    name: str,
    shards: Annotated[list[Path], typer.Argument(help="tar shards (raw) or npz shards (tensors)")],
    index: Annotated[Path, typer.Option(help="JSONL: key, label, split of every row")],
    kind: Annotated[DatasetKind, typer.Option()],
    form: Annotated[RowForm, typer.Option()],
    provenance: str = "",
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
