"""Builds: a version × a recipe → engines, with the reports that prove them."""

from datetime import datetime
from enum import StrEnum
from typing import Annotated

from pydantic import BeforeValidator, Field

from registry.contract.engines import Engine, EngineReport
from registry.contract.identity import Digest
from registry.contract.recipes import Recipe
from registry.contract.wire import Command, Whole, Wire


def _known_fields(value: object) -> object:
    """A recipe in an answer may have options of a later registry; only one that a person sends must not."""
    if not isinstance(value, dict):
        return value
    return {name: each for name, each in value.items() if name in Recipe.model_fields}


class BuildCreate(Command):
    """`no_cache` runs every step again. Of the builds that wait in a queue those of higher `priority` begin
    first, compared by the bands that begin at -49, -19, -4, 0, 1, 5, 20 and 50."""

    version: str = Field(description="MODEL@NUMBER")
    recipe: Recipe | None = None
    no_cache: bool = False
    priority: int = Field(default=0, ge=-100, le=100)


class BuildPhase(StrEnum):
    QUEUED = "queued"
    RUNNING = "running"
    COMPLETED = "completed"
    FAILED = "failed"
    CANCELLED = "cancelled"


class StepPhase(StrEnum):
    RUNNING = "running"
    DONE = "done"
    CACHED = "cached"
    FAILED = "failed"
    REFUSED = "refused"
    SKIPPED = "skipped"


class StepReport(Wire):
    """One step of one run. `engine` is `precision/target`, or None for the steps that all share.

    `reproduce` is a command line that runs the step again from its inputs.
    """

    name: str
    engine: str | None = None
    phase: StepPhase
    reason: str = ""
    key: Digest | None = None
    inputs: dict[str, Digest] = {}
    outputs: dict[str, Digest] = {}
    started_s: float = 0.0
    duration_s: float | None = None
    peak_memory_bytes: Whole | None = None
    reproduce: str = ""


class Build(Wire):
    id: str
    version: str
    recipe: Annotated[Recipe, BeforeValidator(_known_fields)]
    phase: BuildPhase
    reason: str
    since: datetime
    attempt: int
    worker: str | None
    no_cache: bool
    steps: tuple[StepReport, ...]
    engines: tuple[Engine, ...]
    revision: int
    created_at: datetime
    created_by: str


class StepWrite(Wire):
    """A worker's report of one step, replacing the earlier one of that name and engine."""

    fence: Whole
    step: StepReport


class EngineWrite(Wire):
    """A worker's report of one engine, replacing the earlier one of that key in this build."""

    fence: Whole
    engine: EngineReport


class TaskFinish(Wire):
    """`reason` says what failed, in words a person can act on; empty when it did not."""

    fence: Whole
    failed: bool = False
    reason: str = ""


class CachedStep(Wire):
    """Result of a step that ran somewhere before under the same content key."""

    key: Digest
    outputs: dict[str, Digest]
    report: dict[str, object] = {}


CachedStepWrite = Annotated[CachedStep, Field(description="First writer wins; equal keys mean equal results")]
