"""slipway dataset …"""

import tempfile
from collections import Counter
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated

import typer

from registry.client import builds, datasets, folders, lineage, rowsets
from registry.contract.datasets import Dataset, DatasetKind, DatasetPatch, RowForm
from registry.contract.engines import CoverageReport
from registry.contract.lineage import Direction, NodeKind
from registry.contract.versions import DatasetRef, FileEntry
from slipway.cli.output import Column, Form, Output, bars, gone, hint, one, rows
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


COVERAGE: list[Column[CoverageReport]] = [
    ("AGAINST", lambda c: f"{c.against.name}@{c.against.version}"),
    ("ROWS", lambda c: f"{c.rows} / {c.against_rows}"),
    ("OVERLAP", lambda c: ", ".join(f"{f.feature} {f.overlap:.0%}" for f in c.features)),
    ("FLAGGED", lambda c: ", ".join(f.feature for f in c.flagged) or "nothing"),
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


@app.command()
def pack(
    name: str,
    files: Annotated[list[Path], typer.Argument(help="Raw inputs, or folders of them; one row each")],
    kind: Annotated[DatasetKind, typer.Option()],
    labels: Annotated[Path | None, typer.Option(help="JSONL: key (the file's path) and label")] = None,
    provenance: str = "",
    output: Output = Form.TABLE,
) -> None:
    """Make files the data set's next version: shards and index are written for you."""
    found = {path: one for source in files for path, one in folders.files_of(source).items()}
    told = {} if labels is None else {key: row.label for key, row in rowsets.read_index(labels).items()}
    with tempfile.TemporaryDirectory() as room:
        packed = rowsets.pack(Path(room), rowsets.of_files(found, told))
        one(_sent(name, kind, "raw", packed, provenance), COLUMNS, output)


@app.command()
def halve(
    dataset: str,
    calibration: Annotated[str, typer.Option(help="Name of the calibration set")],
    judging: Annotated[str, typer.Option(help="Name of the validation set")],
    output: Output = Form.TABLE,
) -> None:
    """Split NAME@VERSION by the hash of each input: one half to calibrate on, the other to judge on."""
    ref = dataset_ref(dataset)
    whole = client().call(datasets.get(ref.name, ref.version))
    kinds: dict[rowsets.Half, tuple[str, DatasetKind]] = {
        "calibration": (calibration, "calibration"),
        "judging": (judging, "validation"),
    }
    with tempfile.TemporaryDirectory() as folder:
        room = Path(folder)
        index = rowsets.read_index(_fetched(whole.index, room))
        shards = {shard.path: _fetched(shard, room) for shard in whole.shards}
        packed = {half: _half(whole, shards, index, half, room / half) for half in rowsets.HALVES}
        made = [
            _sent(
                name, kind, whole.form, packed[half], f"the {half} half of {dataset}, by the inputs' hashes"
            )
            for half, (name, kind) in kinds.items()
        ]
    rows(made, COLUMNS, output)


def _half(
    whole: Dataset,
    shards: dict[str, Path],
    index: dict[str, rowsets.RowEntry],
    half: rowsets.Half,
    folder: Path,
) -> rowsets.Packed:
    source = f"{whole.name}@{whole.version}"
    if whole.form == "tensors":
        return rowsets.halve_tensors(shards, index, half, source, folder)
    return rowsets.pack(folder, rowsets.halve_raw(shards.values(), index, half, source))


def _fetched(file: FileEntry, room: Path) -> Path:
    return client().download(file.digest, room / "whole" / file.path)


def _sent(name: str, kind: DatasetKind, form: RowForm, packed: rowsets.Packed, provenance: str) -> Dataset:
    with bars() as progress:
        return client().dataset(
            name,
            kind,
            form,
            packed.shards,
            packed.index,
            packed.rows,
            provenance=provenance,
            progress=progress,
        )


@app.command()
def show(dataset: str, output: Output = Form.TABLE) -> None:
    """Show NAME@VERSION, where its rows came from, and how it covered what was judged with it."""
    ref = dataset_ref(dataset)
    found = client().call(datasets.get(ref.name, ref.version))
    one(found, COLUMNS, output)
    if output is not Form.TABLE:
        return
    with tempfile.TemporaryDirectory() as room:
        index = rowsets.read_index(_fetched(found.index, Path(room)))
    print(f"LABELLED  {sum(row.label is not None for row in index.values())}")
    sources = Counter(row.source or "(not told)" for row in index.values())
    for source, count in sources.most_common(10):
        print(f"FROM      {source}: {count}")
    reports = _coverages(ref)
    if reports:
        print()
        rows(reports, COVERAGE, output)
    for report in reports:
        for feature in report.flagged:
            hint(f"warning: unlike {report.against.name}@{report.against.version} in {feature.feature}")


def _coverages(ref: DatasetRef) -> list[CoverageReport]:
    """Of every set that was judged with this one as calibration set, by the builds that used it."""
    graph = client().call(
        lineage.graph(f"dataset:{ref.name}@{ref.version}", Direction.DESCENDANTS, [NodeKind.BUILD])
    )
    found: dict[DatasetRef, CoverageReport] = {}
    for node in graph.nodes:
        if node.kind is not NodeKind.BUILD:
            continue
        for engine in client().call(builds.get(node.ref.partition(":")[2])).engines:
            if engine.coverage is not None and engine.coverage.dataset == ref:
                found[engine.coverage.against] = engine.coverage
    return list(found.values())


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
def delete(dataset: str, output: Output = Form.TABLE) -> None:
    """Delete NAME@VERSION, which nothing refers to. Its bytes go with the collector."""
    ref = dataset_ref(dataset)
    found = client().call(datasets.get(ref.name, ref.version))
    client().call(datasets.delete(ref.name, ref.version, found.revision))
    gone("dataset", dataset, output)
