"""slipway build …"""

from collections.abc import Iterable
from pathlib import Path
from typing import Annotated

import typer

from registry.client import builds
from registry.contract.builds import Build, BuildPhase, StepReport
from registry.contract.engines import CandidateReport, Engine
from registry.contract.recipes import Precision, Recipe
from slipway.cli.files import document
from slipway.cli.output import Column, Form, Output, Told, hint, one, rows
from slipway.cli.session import client, every
from slipway.cli.version import dataset_ref

app = typer.Typer(help="Turn versions into proven engines.", no_args_is_help=True)

COLUMNS: list[Column[Build]] = [
    ("BUILD", lambda b: b.id),
    ("VERSION", lambda b: b.version),
    ("PHASE", lambda b: b.phase),
    ("REASON", lambda b: b.reason),
    ("ATTEMPT", lambda b: b.attempt),
    ("ENGINES", lambda b: sum(engine.releasable for engine in b.engines)),
    ("REFUSED", lambda b: sum(not engine.releasable for engine in b.engines)),
]
ENGINES: list[Column[Engine]] = [
    ("ENGINE", lambda e: f"{e.version}@{e.precision}"),
    ("TARGET", lambda e: e.target),
    ("RELEASABLE", lambda e: "unproven" if e.releasable and e.unproven else e.releasable),
    ("GATES", lambda e: " ".join(f"{gate.name}:{gate.outcome}" for gate in e.gates)),
    ("SPEED", lambda e: f"x{e.bench.speed_ratio:.2f}" if e.bench else None),
    ("SIZE", lambda e: f"x{e.bench.size_ratio:.2f}" if e.bench else None),
    ("METRIC", lambda e: _metric(e)),
    ("REASONS", lambda e: "; ".join(e.reasons)),
]
STEPS: list[Column[StepReport]] = [
    ("STEP", lambda s: s.name),
    ("ENGINE", lambda s: s.engine),
    ("PHASE", lambda s: s.phase),
    ("SECONDS", lambda s: f"{s.duration_s:.2f}" if s.duration_s is not None else None),
    ("REASON", lambda s: s.reason),
]
CANDIDATES: list[Column[CandidateReport]] = [
    ("TRY", lambda c: c.name),
    ("RANGES", lambda c: c.calibrator),
    ("SCALES", lambda c: "per channel" if c.per_channel else "per tensor"),
    ("OPERATORS", lambda c: ",".join(c.operators) or "default"),
    ("EXCLUDED", lambda c: len(c.excluded)),
    ("REFUSED BY", lambda c: ",".join(c.refused_by)),
    ("SQNR", lambda c: f"{c.sqnr_db:.1f} dB" if c.sqnr_db is not None else None),
    ("METRIC", lambda c: f"{c.metric:.4f}" if c.metric is not None else None),
    ("SPEED", lambda c: f"x{c.speed_ratio:.2f}" if c.speed_ratio else None),
    ("SIZE", lambda c: f"x{c.size_ratio:.2f}" if c.size_ratio else None),
    ("FRONTIER", lambda c: c.frontier),
]
ENDS = (BuildPhase.COMPLETED, BuildPhase.FAILED, BuildPhase.CANCELLED)


def _metric(engine: Engine) -> str | None:
    if engine.validation is None or engine.validation.engine_metric is None:
        return None
    found = engine.validation
    return f"{found.metric} {found.engine_metric:.4f} (source {found.source_metric:.4f})"


def progress_sentence(build: Build) -> str:
    """Where a build is."""
    running = next((step for step in reversed(build.steps) if step.phase == "running"), None)
    where = (
        f": {running.name}" + (f" {running.engine}" if running and running.engine else "") if running else ""
    )
    return f"{build.id} {build.phase}{where} ({len(build.steps)} steps, attempt {build.attempt})"


def _recipe(
    precision: list[Precision],
    target: list[str],
    calibration: str | None,
    validation: str | None,
    operators: list[str],
) -> Recipe:
    given = Recipe(precisions=tuple(precision) or (Precision.FP32,), targets=tuple(target) or ("ort.cpu",))
    return given.model_copy(
        update={
            "calibration": dataset_ref(calibration) if calibration else None,
            "validation": dataset_ref(validation) if validation else None,
            "int8": given.int8.model_copy(update={"operators": tuple(operators)}),
        }
    )


@app.command()
def create(
    version: str,
    recipe: Annotated[Path | None, typer.Option(help="JSON file; replaces the options below")] = None,
    precision: Annotated[list[Precision], typer.Option()] = [],  # noqa: B006
    target: Annotated[list[str], typer.Option()] = [],  # noqa: B006
    calibration: Annotated[str | None, typer.Option(help="DATASET@VERSION")] = None,
    validation: Annotated[str | None, typer.Option(help="DATASET@VERSION")] = None,
    int8_operator: Annotated[list[str], typer.Option(help="ONNX operators to quantise")] = [],  # noqa: B006
    wait: Annotated[bool, typer.Option(help="Stay until it has ended")] = True,
    timeout: Annotated[float, typer.Option(help="Seconds to wait")] = 3600,
    output: Output = Form.TABLE,
) -> int:
    """Build MODEL@NUMBER."""
    made = (
        document(Recipe, recipe)
        if recipe
        else _recipe(precision, target, calibration, validation, int8_operator)
    )
    build = client().build(version, made)
    if wait:
        told = Told()
        build = client().wait_build(build.id, timeout, lambda found: told(progress_sentence(found)))
    _show(build, output)
    return 3 if build.phase is BuildPhase.FAILED else 0


def _show(build: Build, output: Form) -> None:
    one(build, COLUMNS, output)
    if output is Form.TABLE and build.engines:
        print()
        rows(build.engines, ENGINES, output)
        for engine in build.engines:
            _explain(engine)
        warn(build.engines)


def _explain(engine: Engine) -> None:
    """What was searched, and which operator is to blame."""
    if engine.bisection is not None:
        print(f"\n{engine.precision} for {engine.target}: {engine.bisection.says}")
    if engine.search is not None:
        print(f"\nsearch for {engine.precision} on {engine.target}: {engine.search.says}")
        rows(engine.search.candidates, CANDIDATES, Form.TABLE)


def warn(engines: Iterable[Engine]) -> None:
    """What people should know of engines besides their gates."""
    for engine in engines:
        for warning in engine.warnings:
            hint(f"warning: {engine.version}@{engine.precision} on {engine.target}: {warning}")


@app.command("list")
def list_(version: str | None = None, limit: int = 100, output: Output = Form.TABLE) -> None:
    """List builds, newest first."""
    rows(every(lambda token: builds.page(version, token), limit), COLUMNS, output)


@app.command()
def get(build: str, output: Output = Form.TABLE) -> None:
    """Show one build with its engines and steps."""
    found = client().call(builds.get(build))
    _show(found, output)
    if output is Form.TABLE and found.steps:
        print()
        rows(found.steps, STEPS, output)


@app.command()
def engines(version: str, output: Output = Form.TABLE) -> None:
    """List the engines of MODEL@NUMBER."""
    rows(client().call(builds.engines(version)).items, ENGINES, output)


@app.command()
def log(build: str) -> None:
    """Print a build's log, as it is: lines of text have no other form."""
    print(client().call(builds.log(build)), end="")


@app.command()
def cancel(build: str, output: Output = Form.TABLE) -> None:
    """Stop a build."""
    one(client().call(builds.cancel(build)), COLUMNS, output)


@app.command()
def retry(build: str, output: Output = Form.TABLE) -> None:
    """Run a failed or cancelled build again; finished steps come from the cache."""
    one(client().call(builds.retry(build)), COLUMNS, output)
    hint(f"watch it: slipway build get {build}")
