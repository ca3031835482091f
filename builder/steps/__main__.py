"""Performs one step: what the worker runs in isolation, and what a `reproduce` line runs by hand.

python -m builder.steps optimise --input model=model.onnx --parameters '{…}' --out folder

An input is a path, a digest (`sha256-…`), `dataset:NAME@VERSION` or `version:MODEL@NUMBER`; all but paths
are fetched from the registry that SLIPWAY_REGISTRY_URL and SLIPWAY_TOKEN name.
"""

import argparse
import ctypes
import os
import signal
import subprocess
import sys
import traceback
from pathlib import Path

from pydantic import ValidationError

from builder.isolation import disk
from builder.steps.catalogue import MODULES, step_named
from builder.steps.step import OUTCOME_FILE, Refused, StepEnding, StepOutcome, perform

_PR_SET_PDEATHSIG = 1


def main(arguments: list[str]) -> int:
    asked = _parser().parse_args(arguments)
    if asked.parent is not None:
        _die_with(asked.parent)
    out = Path(asked.out).resolve()
    out.mkdir(parents=True, exist_ok=True)
    if asked.environment or asked.walled:
        return _elsewhere(asked, out)
    step = step_named(asked.step)
    try:
        parameters = step.parameters.model_validate_json(_text(asked.parameters))
        result = perform(step, parameters, _inputs(asked.input, out), out)
    except (Refused, ValidationError) as refused:
        outcome = StepOutcome(ending=StepEnding.REFUSED, reason=str(refused))
    except MemoryError:
        traceback.print_exc()
        outcome = StepOutcome(
            ending=StepEnding.FAILED,
            reason="ran out of its memory; raise limits.step_memory_mib of the recipe",
        )
    except Exception as error:
        traceback.print_exc()
        reason = disk.sentence() if disk.is_full(out, error) else f"{type(error).__name__}: {error}"
        outcome = StepOutcome(ending=StepEnding.FAILED, reason=reason)
    else:
        outcome = StepOutcome(ending=StepEnding.DONE, reason=result.says, result=result.model_dump_json())
    return _told(outcome, out)


def _told(outcome: StepOutcome, out: Path) -> int:
    """Leaves the outcome beside the outputs, whole or not at all, and gives the exit code."""
    written = out / f"{OUTCOME_FILE}.new"
    written.write_text(outcome.model_dump_json())
    written.replace(out / OUTCOME_FILE)
    print(outcome.reason, flush=True)
    return 0 if outcome.ending is StepEnding.DONE else 1


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m builder.steps", description="Perform one build step.")
    parser.add_argument("step", choices=sorted(MODULES))
    parser.add_argument("--input", action="append", default=[], metavar="NAME=WHERE")
    parser.add_argument("--parameters", default="{}", metavar="JSON", help="or @FILE")
    parser.add_argument("--out", required=True, metavar="FOLDER")
    parser.add_argument("--environment", metavar="NAME", help="perform it in that worker environment")
    parser.add_argument("--walled", action="store_true", help="perform it in a sandbox")
    parser.add_argument("--parent", type=int, help="end when this process ends")
    return parser


def _elsewhere(asked: argparse.Namespace, out: Path) -> int:
    """The same step by another interpreter, behind walls where they are wanted; inputs are fetched out
    here."""
    from builder.isolation.launch import Place, command

    parameters = out / "parameters.json"
    try:
        parameters.write_text(_text(asked.parameters))
        inputs = _inputs(asked.input, out.parent / f"{out.name}.inputs")
        place = Place(asked.environment, asked.walled)
        words = command(place, asked.step, inputs, parameters, out, os.getpid())
    except Refused as refused:
        return _told(StepOutcome(ending=StepEnding.REFUSED, reason=str(refused)), out)
    return subprocess.run(words, check=False).returncode


def _text(value: str) -> str:
    return Path(value[1:]).read_text() if value.startswith("@") else value


def _inputs(given: list[str], out: Path) -> dict[str, Path]:
    found: dict[str, Path] = {}
    for one in given:
        name, equals, where = one.partition("=")
        if not equals:
            raise Refused(f"{one!r} is no input; write NAME=WHERE")
        found[name] = _locate(where, out / "fetched" / name)
    return found


def _locate(where: str, folder: Path) -> Path:
    if not where.startswith(("sha256-", "dataset:", "version:")):
        return Path(where).resolve()
    from builder.builds.fetch import fetch  # the isolated child has neither a registry nor a token

    return fetch(where, folder)


def _die_with(parent: int) -> None:
    """A worker that is killed takes its step along. Linux only; elsewhere the step ends by its limits."""
    if sys.platform == "linux":
        ctypes.CDLL(None, use_errno=True).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != parent:
        raise SystemExit("the worker that started this step has ended")


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
