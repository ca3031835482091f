"""What a step is, and the one way to perform it: requires → run → ensures."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Generic, TypeVar

from registry.contract.wire import Wire

P = TypeVar("P", bound=Wire)
R = TypeVar("R", bound="StepResult")
Inputs = Mapping[str, Path]

OUTCOME_FILE = "outcome.json"


class StepResult(Wire):
    """What a step found out. `says`: the outcome in one sentence, told to people word for word."""

    says: str


class Refused(Exception):
    """The model, the data or the recipe doesn't allow this step. The text says why and how to mend it."""


def first_line(error: BaseException) -> str:
    """What an error of somebody's library says, for a sentence of ours: its name where it says nothing."""
    lines = str(error).strip().splitlines()
    return lines[0].strip() if lines else type(error).__name__


class StepEnding(StrEnum):
    DONE = "done"
    REFUSED = "refused"
    FAILED = "failed"


class StepOutcome(Wire):
    """Written as `outcome.json` beside the outputs. `result` is the step's own report as JSON."""

    ending: StepEnding
    reason: str = ""
    result: str = ""


@dataclass(frozen=True, slots=True)
class Step(Generic[P, R]):
    """`revision` grows when equal inputs and parameters begin to mean another result.

    `requires` and `accepts` name inputs (files or folders), `outputs` files that `run` leaves in its folder.
    """

    name: str
    revision: int
    requires: tuple[str, ...]
    accepts: tuple[str, ...]
    outputs: tuple[str, ...]
    parameters: type[P]
    result: type[R]
    run: Callable[[P, Inputs, Path], R]


def perform(step: Step[P, R], parameters: P, inputs: Inputs, out: Path) -> R:
    """Runs a step on files. Raises Refused, and what the step's libraries raise."""
    missing = [name for name in step.requires if name not in inputs]
    unknown = [name for name in inputs if name not in step.requires + step.accepts]
    if missing or unknown:
        raise Refused(
            f"step {step.name} takes {', '.join(step.requires)}"
            f"{' and perhaps ' + ', '.join(step.accepts) if step.accepts else ''}; "
            f"missing: {', '.join(missing) or 'none'}; unknown: {', '.join(unknown) or 'none'}"
        )
    for name, path in inputs.items():
        if not path.exists():
            raise Refused(
                f"input {name} of step {step.name} is not at {path}; give a file or folder that exists"
            )
    out.mkdir(parents=True, exist_ok=True)
    result = step.run(parameters, inputs, out)
    for name in step.outputs:
        if not (out / name).is_file():
            raise RuntimeError(f"step {step.name} ended without its output {name}")
    return result
