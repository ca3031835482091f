"""Rows of a data set → engine inputs, by the version's own pre-processing."""

from collections.abc import Container, Iterator
from pathlib import Path

from builder.data.rows import Row, read_rows
from builder.data.samples import Sample
from builder.steps.step import Inputs, Refused
from registry.contract.pipeline import PipelineSpec
from registry.contract.versions import Signature
from serving.pipeline.errors import PipelineMismatch
from serving.pipeline.files import NO_FILES, Files
from serving.pipeline.inputs import check_inputs
from serving.pipeline.prepared import Prepared
from serving.pipeline.processing import Preprocess, missing_as_nan, pre
from serving.runtimes.errors import InputError

FILES = "files"
"""The input of steps that holds what the pipeline reads: a folder with the version's files."""


def files_of(pipeline: PipelineSpec, inputs: Inputs) -> Files:
    """The pipeline's files among a step's inputs."""
    folder = inputs.get(FILES)
    return {} if folder is None else {path: folder / path for path in pipeline.files}


def preprocess(pipeline: PipelineSpec, signature: Signature, files: Files = NO_FILES) -> Preprocess:
    """Raises Refused when pipeline, signature and files don't fit together."""
    try:
        return pre(pipeline, signature, files)
    except PipelineMismatch as error:
        raise Refused(
            f"the version's pre-processing doesn't fit its signature ({error}); register a version with a "
            "contract that fits"
        ) from error


def read_samples_of(
    folder: Path,
    pipeline: PipelineSpec,
    signature: Signature,
    only: Container[str] | None = None,
    files: Files = NO_FILES,
) -> Iterator[tuple[Row, Sample]]:
    """Every row with its inputs. Raises Refused, naming the row, when one can't be made into inputs."""
    process = preprocess(pipeline, signature, files)
    nan = missing_as_nan(pipeline)
    for row in read_rows(folder, only):
        try:
            found = process.prepare(row.raw) if row.raw is not None else Prepared(row.tensors or {})
            made = check_inputs(signature, found.tensors, nan)
        except InputError as error:
            raise Refused(f"row {row.key!r} of the data set is no input of this version: {error}") from error
        if made != 1:
            raise Refused(
                f"row {row.key!r} of the data set makes {made} inputs, and a row has one label: cut the "
                "series into rows of one window"
            )
        yield row, Sample(row.key, found.tensors, row.raw, found.place)
