"""sample: a few rows of the data set as engine inputs; made up from the signature where there is none."""

import hashlib
import itertools
from pathlib import Path

import numpy as np

from builder.data.prepare import FILES, files_of, preprocess, read_samples_of
from builder.data.rows import read_labels
from builder.data.samples import Array, Sample, write_samples
from builder.steps.step import Inputs, Refused, Step, StepResult
from registry.contract.pipeline import PipelineSpec
from registry.contract.versions import Dtype, Signature, TensorSpec
from registry.contract.wire import Wire
from serving.pipeline.files import Files
from serving.runtimes.dtypes import numpy_dtype

MADE_UP_ROWS = 16
# Sizes that named dimensions take in turn in made-up rows.
SIZES = (8, 5, 16, 3)


class SampleParameters(Wire):
    signature: Signature
    pipeline: PipelineSpec
    rows: int = 64


class SampleStepResult(StepResult):
    rows: int
    made_up: bool


def run(parameters: SampleParameters, inputs: Inputs, out: Path) -> SampleStepResult:
    folder = inputs.get("rows")
    if folder is None:
        preprocess(parameters.pipeline, parameters.signature, files_of(parameters.pipeline, inputs))
        samples = made_up(parameters.signature)
        says = f"{len(samples)} made-up rows: the recipe names no data set"
    else:
        samples = _chosen(folder, parameters, files_of(parameters.pipeline, inputs))
        says = f"{len(samples)} rows of the data set"
    write_samples(out / "sample.npz", samples)
    return SampleStepResult(says=says, rows=len(samples), made_up=folder is None)


def _chosen(folder: Path, parameters: SampleParameters, files: Files) -> list[Sample]:
    """The rows whose keys have the smallest hashes: random, and the same whatever the order of the rows."""
    keys = sorted(read_labels(folder), key=lambda key: hashlib.sha256(key.encode()).digest())
    only = frozenset(keys[: parameters.rows])
    rows = read_samples_of(folder, parameters.pipeline, parameters.signature, only, files)
    found = [sample for _, sample in rows]
    if not found:
        raise Refused("the data set has no rows in its shards; register one whose index and shards agree")
    return sorted(found, key=lambda sample: sample.key)


def made_up(signature: Signature, rows: int = MADE_UP_ROWS) -> list[Sample]:
    """Rows by the signature alone: normal numbers, zeros and ones, short texts. Always the same ones."""
    generator = np.random.default_rng(0)
    turns = itertools.cycle(SIZES)
    found = []
    for at in range(rows):
        sizes: dict[str, int] = {}
        base = next(turns)
        tensors = {spec.name: _tensor(spec, sizes, base, generator) for spec in signature.inputs}
        found.append(Sample(f"made-up-{at}", tensors))
    return found


def _tensor(spec: TensorSpec, sizes: dict[str, int], base: int, generator: np.random.Generator) -> Array:
    shape = tuple(
        size if isinstance(size, int) else 1 if axis == 0 else sizes.setdefault(size, base)
        for axis, size in enumerate(spec.shape)
    )
    dtype = numpy_dtype(spec.dtype)
    if spec.dtype is Dtype.BYTES:
        return np.full(shape, "text", dtype=np.object_)
    if dtype.kind == "f":
        return generator.standard_normal(shape).astype(dtype)
    return generator.integers(0, 2, shape).astype(dtype)


STEP = Step(
    name="sample",
    revision=1,
    requires=(),
    accepts=("rows", FILES),
    outputs=("sample.npz",),
    parameters=SampleParameters,
    result=SampleStepResult,
    run=run,
)
