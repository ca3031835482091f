"""Performs a step in a worker environment, as a worker does."""

import os
import subprocess
from collections.abc import Mapping
from pathlib import Path

from builder.isolation.launch import Place, command
from builder.steps.step import OUTCOME_FILE, P, R, Refused, Step, StepEnding, StepOutcome
from registry.contract.versions import Dtype, Signature, TensorSpec
from tests import environments

LIMIT_S = 300
# Of the script that `torch_native` writes.
PACKED = Signature(
    inputs=(
        TensorSpec(name="ids", dtype=Dtype.INT64, shape=("batch", "length")),
        TensorSpec(name="lengths", dtype=Dtype.INT64, shape=("batch", 1)),
    ),
    outputs=(TensorSpec(name="scores", dtype=Dtype.FP32, shape=("batch", 3)),),
)


def perform_in(place: Place, step: Step[P, R], parameters: P, inputs: Mapping[str, Path], out: Path) -> R:
    """Raises Refused as the step does."""
    out.mkdir(parents=True)
    written = out.parent / f"{out.name}.json"
    written.write_text(parameters.model_dump_json())
    ended = subprocess.run(
        command(place, step.name, inputs, written, out, os.getpid()),
        capture_output=True,
        text=True,
        check=False,
        timeout=LIMIT_S,
        env={"PATH": os.environ["PATH"], "HOME": str(out), "OMP_NUM_THREADS": "1"},
    )
    assert (out / OUTCOME_FILE).is_file(), ended.stderr[-4000:]
    outcome = StepOutcome.model_validate_json((out / OUTCOME_FILE).read_bytes())
    if outcome.ending is StepEnding.REFUSED:
        raise Refused(outcome.reason)
    assert outcome.ending is StepEnding.DONE, outcome.reason + ended.stdout + ended.stderr[-4000:]
    return step.result.model_validate_json(outcome.result)


def write_torch_versions(folder: Path) -> Path:
    """`script`, `program` and `source`: the files of PyTorch versions (see `torch_native`)."""
    python = environments.worker("torch").python
    subprocess.run(
        [str(python), "-m", "tests.builder.steps.torch_native", str(folder)],
        check=True,
        cwd=environments.ROOT,
        env={"PATH": os.environ["PATH"], "HOME": str(folder), "OMP_NUM_THREADS": "1"},
    )
    return folder
