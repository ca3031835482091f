"""slipway version …"""

from pathlib import Path
from typing import Annotated

import typer

from registry.client import versions
from registry.contract.identity import parse_version
from registry.contract.versions import (
    DatasetRef,
    Framework,
    Lineage,
    Metric,
    MetricsAppend,
    StageChange,
    Version,
    VersionContract,
)
from slipway.cli.files import document
from slipway.cli.output import Column, Form, Output, bars, gone, one, rows
from slipway.cli.session import client, every, pairs

app = typer.Typer(help="Immutable versions of models.", no_args_is_help=True)

COLUMNS: list[Column[Version]] = [
    ("VERSION", lambda v: f"{v.model}@{v.number}"),
    ("STAGE", lambda v: v.stage),
    ("FRAMEWORK", lambda v: v.framework),
    ("PROVEN", lambda v: v.proven),
    ("PARENT", lambda v: v.lineage.parent_version),
    ("CREATED", lambda v: f"{v.created_at:%Y-%m-%d %H:%M}Z"),
    ("BY", lambda v: v.created_by),
]
DETAIL: list[Column[Version]] = [
    *COLUMNS,
    ("REASON", lambda v: v.stage_reason),
    ("DIGEST", lambda v: v.digest),
    ("FILES", lambda v: ", ".join(f"{f.path} ({f.size} B)" for f in v.files)),
    ("COMMIT", lambda v: v.lineage.commit),
    ("ALIASES", lambda v: ", ".join(v.aliases)),
    ("TAGS", lambda v: v.tags),
    ("WARNINGS", lambda v: "; ".join(v.warnings)),
]
METRICS: list[Column[Metric]] = [
    ("DATASET", lambda m: f"{m.dataset.name}@{m.dataset.version}"),
    ("SPLIT", lambda m: m.split),
    ("METRIC", lambda m: m.name),
    ("VALUE", lambda m: f"{m.value:.6g}"),
    ("N", lambda m: m.n),
    ("MEASURED BY", lambda m: m.measured_by),
]


def at(text: str) -> tuple[str, int]:
    """MODEL@NUMBER."""
    ref = parse_version(text)
    return ref.model, ref.number


def dataset_ref(text: str) -> DatasetRef:
    """NAME@VERSION. Raises ValueError."""
    ref = parse_version(text)
    return DatasetRef(name=ref.model, version=ref.number)


@app.command()
def register(
    model: str,
    source: Annotated[Path, typer.Argument(help="The model file, or a directory of files")],
    contract: Annotated[Path, typer.Option(help="JSON file: signature, pipeline, observables, golden pairs")],
    framework: Framework = Framework.ONNX,
    parent: int | None = None,
    commit: str | None = None,
    repository: str | None = None,
    training_data: Annotated[str | None, typer.Option(help="DATASET@VERSION")] = None,
    description: str = "",
    tag: Annotated[list[str], typer.Option(help="NAME=VALUE")] = [],  # noqa: B006
    output: Output = Form.TABLE,
) -> int:
    """Register a version: upload its files, seal it, wait until it is ready."""
    lineage = Lineage(
        parent_version=parent,
        commit=commit,
        repository=repository,
        training_data=dataset_ref(training_data) if training_data else None,
    )
    with bars() as progress:
        made = client().register(
            model,
            source,
            document(VersionContract, contract),
            framework=framework,
            lineage=lineage,
            description=description,
            tags=pairs(tag),
            progress=progress,
        )
    one(made, DETAIL, output)
    return 0 if made.stage == "ready" else 3


@app.command("list")
def list_(model: str, limit: int = 100, output: Output = Form.TABLE) -> None:
    """List a model's versions, newest first."""
    rows(every(lambda token: versions.page(model, token), limit), COLUMNS, output)


@app.command()
def search(
    filter: Annotated[
        str, typer.Argument(help="Such as: tags.team='nlp' and metrics.top1@valset>0.9 and stage=ready")
    ] = "",
    order_by: Annotated[
        str | None, typer.Option(help="created_at, name or metrics.NAME@DATASET, then asc or desc")
    ] = None,
    limit: int = 100,
    output: Output = Form.TABLE,
) -> None:
    """Find versions of all models, newest first."""
    rows(every(lambda token: versions.search(filter, order_by, token), limit), COLUMNS, output)


@app.command()
def get(version: str, output: Output = Form.TABLE) -> None:
    """Show MODEL@NUMBER."""
    one(client().call(versions.get(*at(version))), DETAIL, output)


@app.command()
def metric(
    version: str,
    dataset: Annotated[str, typer.Option(help="DATASET@VERSION")],
    name: Annotated[str, typer.Option()],
    value: Annotated[float, typer.Option()],
    n: Annotated[int, typer.Option(help="Rows that it was measured on")],
    split: str = "all",
    lower_is_better: bool = False,
    output: Output = Form.TABLE,
) -> None:
    """Record a metric of MODEL@NUMBER on a data set."""
    made = Metric(
        dataset=dataset_ref(dataset),
        split=split,
        name=name,
        value=value,
        n=n,
        higher_is_better=not lower_is_better,
    )
    call = versions.append_metrics(*at(version), MetricsAppend(metrics=(made,)))
    rows(client().call(call).items, METRICS, output)


@app.command()
def metrics(version: str, output: Output = Form.TABLE) -> None:
    """List the metrics of MODEL@NUMBER."""
    rows(client().call(versions.metrics(*at(version))).items, METRICS, output)


@app.command()
def archive(version: str, reason: Annotated[str, typer.Option()], output: Output = Form.TABLE) -> None:
    """Put MODEL@NUMBER away."""
    one(client().call(versions.archive(*at(version), StageChange(reason=reason))), DETAIL, output)


@app.command()
def restore(version: str, reason: Annotated[str, typer.Option()], output: Output = Form.TABLE) -> None:
    """Take MODEL@NUMBER, which was archived, back into use."""
    one(client().call(versions.restore(*at(version), StageChange(reason=reason))), DETAIL, output)


@app.command()
def delete(version: str, output: Output = Form.TABLE) -> None:
    """Delete MODEL@NUMBER, which is a draft, rejected or archived. Its bytes go with the collector."""
    found = client().call(versions.get(*at(version)))
    client().call(versions.delete(found.model, found.number, found.revision))
    gone("version", version, output)


@app.command()
def quarantine(version: str, reason: Annotated[str, typer.Option()], output: Output = Form.TABLE) -> None:
    """Mark MODEL@NUMBER as bad: it can never be released again."""
    one(client().call(versions.quarantine(*at(version), StageChange(reason=reason))), DETAIL, output)
