"""Rows of a data set → engine inputs, by the version's own pre-processing."""

from collections.abc import Container, Iterator
from pathlib import Path

from builder.rows import Row, read_rows
from builder.samples import Sample
from builder.steps.step import Refused
from registry.contract.pipeline import PipelineSpec
from registry.contract.versions import Signature
from serving.pipeline.errors import PipelineMismatch
from serving.pipeline.inputs import check_inputs
from serving.pipeline.processing import Preprocess, pre
from serving.runtimes.errors import InputError


def preprocess(pipeline: PipelineSpec, signature: Signature) -> Preprocess:
    """Raises Refused when pipeline and signature don't fit together."""
    try:
        return pre(pipeline, signature)
    except PipelineMismatch as error:
        raise Refused(
            f"the version's pre-processing doesn't fit its signature ({error}); register a version with a "
            "contract that fits"
        ) from error


def read_samples_of(
    folder: Path, pipeline: PipelineSpec, signature: Signature, only: Container[str] | None = None
) -> Iterator[tuple[Row, Sample]]:
    """Every row with its inputs. Raises Refused, naming the row, when one can't be made into inputs."""
    process = preprocess(pipeline, signature)
    for row in read_rows(folder, only):
        try:
            tensors = process(row.raw) if row.raw is not None else (row.tensors or {})
            check_inputs(signature, tensors)
        except InputError as error:
            raise Refused(f"row {row.key!r} of the data set is no input of this version: {error}") from error
        yield row, Sample(row.key, tensors, row.raw)
