"""prune: the weights of least magnitude become zero, layer by layer; proven against the whole model."""

from pathlib import Path

import numpy as np

from builder.data.samples import read_samples
from builder.judgement.comparison import Comparison
from builder.quantisation import schemes
from builder.steps.engines import opened
from builder.steps.step import Inputs, Refused, Step, StepResult
from registry.contract.engines import PruningReport
from registry.contract.identity import TargetName
from registry.contract.recipes import PruneOptions
from registry.contract.wire import Wire

MODEL = "model.onnx"


class PruneParameters(Wire):
    """`min_cosine`, `min_sqnr_db`: the gate of this step, against the model as it came."""

    target: TargetName
    options: PruneOptions
    min_cosine: float
    min_sqnr_db: float


class PruneResult(StepResult):
    report: PruningReport


def run(parameters: PruneParameters, inputs: Inputs, out: Path) -> PruneResult:
    """Raises Refused when the pruned model answers otherwise."""
    import onnx
    from onnx import numpy_helper

    model = onnx.load(str(inputs["model"]))
    schemes.name_nodes(model)
    options = parameters.options
    chosen = frozenset(schemes.choose_nodes(model, options.operators, options.exclude_nodes))
    read = {name for node in model.graph.node if node.name in chosen for name in node.input[1:2]}
    zeros = weights = layers = 0
    for tensor in model.graph.initializer:
        if tensor.name not in read or tensor.data_type != onnx.TensorProto.FLOAT:
            continue
        array = numpy_helper.to_array(tensor).copy()
        flat = np.abs(array).reshape(-1)
        # By rank, not by a threshold: equal magnitudes must not all go at once.
        array.reshape(-1)[np.argsort(flat, kind="stable")[: int(options.sparsity * flat.size)]] = 0
        tensor.CopyFrom(numpy_helper.from_array(array, tensor.name))
        zeros, weights, layers = zeros + int((array == 0).sum()), weights + array.size, layers + 1
    if not layers:
        raise Refused(
            f"there is nothing to prune: no {' or '.join(options.operators)} has stored weights; choose "
            "others with prune.operators, or leave prune out"
        )
    onnx.save(model, str(out / MODEL))
    cosine, decibels = _agreement(parameters.target, inputs, out / MODEL)
    said = (
        f"{zeros / weights:.0%} of {weights} weights in {layers} layers are zero: lowest cosine {cosine:.4f}"
    )
    if cosine < parameters.min_cosine or (decibels is not None and decibels < parameters.min_sqnr_db):
        noise = "" if decibels is None else f" and {decibels:.1f} dB"
        raise Refused(
            f"pruning changes the answers: {said}{noise} (limits {parameters.min_cosine:g} and "
            f"{parameters.min_sqnr_db:g} dB); lower prune.sparsity, exclude layers (prune.exclude_nodes), or "
            "prune while training"
        )
    return PruneResult(
        says=said,
        report=PruningReport(
            sparsity=zeros / weights,
            weights=weights,
            layers=layers,
            lowest_cosine=cosine,
            lowest_sqnr_db=decibels,
        ),
    )


def _agreement(target: TargetName, inputs: Inputs, pruned: Path) -> tuple[float, float | None]:
    """Lowest cosine and signal to noise of any output, over all rows of the sample."""
    comparison = Comparison()
    with opened(inputs["model"], target) as before, opened(pruned, target) as after:
        for sample in read_samples(inputs["sample"]):
            comparison.add(sample.key, before.infer(sample.tensors), after.infer(sample.tensors))
    outputs = comparison.outputs()
    noisy = [output.sqnr_db for output in outputs if output.sqnr_db is not None]
    return min(output.cosine for output in outputs), min(noisy, default=None)


STEP = Step(
    name="prune",
    revision=1,
    requires=("model", "sample"),
    accepts=(),
    outputs=(MODEL,),
    parameters=PruneParameters,
    result=PruneResult,
    run=run,
)
