"""optimise: a smaller graph with the same answers. Every stage is proven on the sample, or left out."""

from collections import Counter
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from builder.data.samples import read_samples
from builder.graphs import folding, fusion
from builder.steps.check import disagreement
from builder.steps.engines import opened
from builder.steps.step import Inputs, Refused, Step, StepResult, first_line
from registry.contract.identity import TargetName
from registry.contract.wire import Wire
from serving.runtimes.errors import RuntimeFault

if TYPE_CHECKING:
    import onnx

Level = Literal["basic", "extended"]


class OptimiseParameters(Wire):
    """`basic` keeps ONNX's own operators, which quantisation needs; `extended` fuses as far as any machine
    can run it. There is no `all`: its layouts belong to the CPU they were made on."""

    target: TargetName
    level: Level


class OptimiseResult(StepResult):
    """`fused`: operators that there are more of than before, and how many."""

    nodes_before: int
    nodes: int
    fused: dict[str, int]
    warnings: tuple[str, ...]


def run(parameters: OptimiseParameters, inputs: Inputs, out: Path) -> OptimiseResult:
    from builder.graphs import walks

    source = inputs["model"]
    samples = read_samples(inputs["sample"])
    warnings: list[str] = []
    best = source
    stages: tuple[tuple[str, Callable[[Path, Path], None]], ...] = (
        ("onnxslim", _slim),
        ("hard-swish", partial(_changed, fusion.fuse_hard_swish)),
        ("folding", partial(_changed, folding.fold_scalars)),
        (f"onnxruntime {parameters.level}", lambda left, right: _ort(left, right, parameters.level)),
    )
    for number, (name, change) in enumerate(stages):
        candidate = out / f"stage-{number}.onnx"
        try:
            change(best, candidate)
            problem = disagreement(source, candidate, parameters.target, samples)
        except (Refused, RuntimeFault) as error:
            problem = str(error)
        except Exception as error:  # these libraries raise whatever their passes run into
            problem = f"{type(error).__name__}: {first_line(error)}"
        if problem:
            warnings.append(f"left out {name}: {problem}")
        else:
            best = candidate
    before, after = (walks.operators(walks.read_graph(path)) for path in (source, best))
    (out / "model.onnx").write_bytes(best.read_bytes())
    with opened(out / "model.onnx", parameters.target):
        pass
    fused = _fused(before, after)
    return OptimiseResult(
        says="; ".join([_sentence(before, after, fused), *warnings]),
        nodes_before=before.total(),
        nodes=after.total(),
        fused=fused,
        warnings=tuple(warnings),
    )


def _slim(source: Path, out: Path) -> None:
    import onnx
    import onnxslim

    slimmed = onnxslim.slim(onnx.load(str(source)))
    onnx.save(slimmed, str(out))


def _changed(change: "Callable[[onnx.ModelProto], int]", source: Path, out: Path) -> None:
    import onnx

    model = onnx.load(str(source))
    change(model)
    onnx.save(model, str(out))


def _ort(source: Path, out: Path, level: Level) -> None:
    import onnxruntime

    options: Any = onnxruntime.SessionOptions()
    options.graph_optimization_level = {
        "basic": onnxruntime.GraphOptimizationLevel.ORT_ENABLE_BASIC,
        "extended": onnxruntime.GraphOptimizationLevel.ORT_ENABLE_EXTENDED,
    }[level]
    options.optimized_model_filepath = str(out)
    options.log_severity_level = 4
    onnxruntime.InferenceSession(str(source), options, providers=["CPUExecutionProvider"])


def _fused(before: Counter[str], after: Counter[str]) -> dict[str, int]:
    """Where the graph shrank, what grew is what was fused."""
    if after.total() >= before.total():
        return {}
    return {name: count - before[name] for name, count in sorted(after.items()) if count > before[name]}


def _sentence(before: Counter[str], after: Counter[str], fused: dict[str, int]) -> str:
    made = ", ".join(f"{count} {name}" for name, count in fused.items()) or "nothing"
    return f"{before.total()} → {after.total()} nodes; fused: {made}"


STEP = Step(
    name="optimise",
    revision=3,
    requires=("model", "sample"),
    accepts=(),
    outputs=("model.onnx",),
    parameters=OptimiseParameters,
    result=OptimiseResult,
    run=run,
)
