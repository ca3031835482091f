"""Engines inside steps: opened through the very adapter that nodes run."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from builder.data.samples import Array, Sample, stack
from builder.steps.step import Refused
from registry.contract.versions import Signature
from serving.pipeline.batch import split
from serving.runtimes.errors import IncompatibleTensorRt, NotAModel, ProviderUnavailable
from serving.runtimes.loading import open_engine
from serving.runtimes.protocol import GraphOptimisation, LoadedEngine, LoadOptions

Outputs = dict[str, Array]


@contextmanager
def opened(
    path: Path, target: str, threads: int = 1, optimisation: GraphOptimisation = "extended"
) -> Iterator[LoadedEngine]:
    """Raises Refused when the file can't be loaded as an engine of the target."""
    try:
        engine, _, _ = open_engine(
            path, target, LoadOptions(threads=threads, graph_optimisation=optimisation)
        )
    except (IncompatibleTensorRt, NotAModel, ProviderUnavailable) as error:
        raise Refused(f"{target} can't load it: {error}") from error
    try:
        yield engine
    finally:
        engine.close()


def run_batch(engine: LoadedEngine, batch: Sequence[Sample]) -> list[Outputs]:
    """Outputs of each row of one batch, each with a batch axis of 1. Raises RunFailed, IllegalAnswer."""
    if len(batch) == 1:
        return [engine.infer(batch[0].tensors)]
    return split(engine.infer(stack([sample.tensors for sample in batch])), [1] * len(batch))


def batch_varies(signature: Signature) -> bool:
    """True when every input has a batch axis that may vary."""
    return all(spec.shape and isinstance(spec.shape[0], str) for spec in signature.inputs)
