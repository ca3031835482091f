"""bisect: which operator of an engine is to blame.

Each is fed with the source's own numbers, and ranked by what the error that it adds by itself does to the
source's outputs. The blame is confirmed by cutting source and engine behind the suspects, one after the
other from the beginning (linear reduction).
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from builder.data.samples import Array, Sample, read_samples
from builder.quantisation import schemes
from builder.search.extraction import Graph
from builder.search.noise import Noise
from builder.steps.step import Inputs, Refused, Step, StepResult
from registry.contract.engines import NodeError
from registry.contract.identity import TargetName
from registry.contract.wire import Wire

if TYPE_CHECKING:
    import onnx
    from polygraphy.backend.onnxrt import OnnxrtRunner

MODEL, TENSORS = "culprit.onnx", "culprit.npz"
# What weighs channels against each other again, so that a small one matters little behind it.
WEIGHING = ("Conv", "ConvTranspose", "Gemm", "GRU", "LSTM", "MatMul")
# A cut's noise is an operator's own when at least this part of it is there without what came before.
OWN = 0.5


class BisectParameters(Wire):
    """`nodes`: those of the source to look at; empty: all. `min_sqnr_db`: where a cut begins to be off."""

    target: TargetName
    nodes: tuple[str, ...] = ()
    min_sqnr_db: float = 10.0
    rows: int = 12
    suspects: int = 8


class BisectResult(StepResult):
    """`ranking`: worst first. `confirmed`: see BisectionReport."""

    node: str
    operator: str
    confirmed: bool
    local_sqnr_db: float | None
    cut_sqnr_db: float | None
    ranking: tuple[NodeError, ...]


@dataclass(frozen=True, slots=True)
class _Tail:
    """The source from one tensor on."""

    inputs: tuple[str, ...]
    runner: "OnnxrtRunner"


@dataclass(slots=True)
class _Part:
    """One operator in the engine, as a model of its own. `at`: its place in the source; `operations`: see
    NodeError."""

    at: int
    node: "onnx.NodeProto"
    inputs: tuple[str, ...]
    output: str
    rounded: str
    model: "onnx.ModelProto"
    runner: "OnnxrtRunner"
    last: bool
    operations: int
    tail: "_Tail | None" = None
    noise: Noise = field(default_factory=Noise)
    effects: dict[str, Noise] = field(default_factory=dict)

    @property
    def effect(self) -> float:
        """Of its error on the source's outputs; of an output itself, its error."""
        return max((noise.by_channel for noise in self.effects.values()), default=self.error)

    @property
    def error(self) -> float:
        """Behind the last weights every channel is an answer of its own kind, however small."""
        return self.noise.by_channel if self.last else self.noise.ratio


def run(parameters: BisectParameters, inputs: Inputs, out: Path) -> BisectResult:
    import onnx
    from polygraphy.logger import G_LOGGER

    G_LOGGER.module_severity = G_LOGGER.CRITICAL
    source = onnx.shape_inference.infer_shapes(onnx.load(str(inputs["model"])))
    schemes.name_nodes(source)
    engine = onnx.load(str(inputs["engine"]))
    samples = read_samples(inputs["sample"])[: parameters.rows]
    parts, first = _local(source, engine, parameters.nodes, samples)
    if not parts:
        raise Refused(
            "no operator of the engine can be told apart: its tensors have other names than the source's"
        )
    ranked = sorted(parts, key=lambda part: (-part.effect, -part.error, part.at))
    suspects = sorted(ranked[: parameters.suspects], key=lambda part: part.at)
    culprit, cut, confirmed = _confirm(source, engine, suspects, samples, parameters.min_sqnr_db)
    if not confirmed:
        culprit, cut = ranked[0], None
    _keep(culprit, first, samples[0].key, out)
    return BisectResult(
        says=_sentence(culprit, cut, confirmed),
        node=culprit.node.name,
        operator=culprit.node.op_type,
        confirmed=confirmed,
        local_sqnr_db=culprit.noise.decibels,
        cut_sqnr_db=cut,
        ranking=tuple(
            NodeError(
                node=part.node.name,
                operator=part.node.op_type,
                error=part.error,
                effect=part.effect,
                operations=part.operations,
                sqnr_db=part.noise.decibels,
            )
            for part in ranked
        ),
    )


def _local(
    source: "onnx.ModelProto", engine: "onnx.ModelProto", names: Sequence[str], samples: Sequence[Sample]
) -> tuple[list[_Part], dict[str, Array]]:
    """Operators with the errors that they add by themselves, and the source's tensors on the first row."""
    from polygraphy.backend.onnx import modify_outputs

    graph, whole = Graph(engine), Graph(source)
    chosen = [
        (at, node)
        for at, node in enumerate(source.graph.node)
        if (not names or node.name in names) and graph.has(node.output[0])
    ]
    wanted = dict.fromkeys(name for _, node in chosen for name in (*whole.activations(node), node.output[0]))
    weighed = whole.weighed_behind(WEIGHING)
    given = {value.name for value in source.graph.input}
    outputs = [value.name for value in source.graph.output]
    marked = [name for name in dict.fromkeys([*wanted, *outputs]) if name not in given]
    runner = _runner(modify_outputs(source, marked, copy=True))
    parts: list[_Part] = []
    first: dict[str, Array] = {}
    with runner:
        for turn, sample in enumerate(samples):
            tensors = _infer(runner, sample.tensors) | dict(sample.tensors)
            if turn == 0:
                first = tensors
                found = (
                    _part(graph, whole, at, node, tensors, node.output[0] not in weighed)
                    for at, node in chosen
                )
                parts = [part for part in found if part is not None]
            ends = {name: tensors[name] for name in outputs if tensors[name].dtype.kind == "f"}
            for part in parts:
                _add(part, whole, tensors, ends, sample.tensors)
    return parts, first


def _add(
    part: _Part,
    whole: Graph,
    tensors: Mapping[str, Array],
    ends: Mapping[str, Array],
    inputs: Mapping[str, Array],
) -> None:
    """One row: the operator's error, and what becomes of it in the source."""
    with part.runner:
        got = _infer(part.runner, {name: tensors[name] for name in part.inputs})[part.rounded]
    part.noise.add(tensors[part.output], got)
    feeds = {**inputs, part.output: got}
    if part.tail is None and part.output not in ends:
        model = whole.cut(feeds, ends)
        if model is not None:
            part.tail = _Tail(tuple(value.name for value in model.graph.input), _runner(model))
    if part.tail is not None:
        with part.tail.runner:
            found = _infer(part.tail.runner, {name: feeds[name] for name in part.tail.inputs})
        for name, wanted in ends.items():
            part.effects.setdefault(name, Noise()).add(wanted, found[name])


def _part(
    graph: Graph,
    whole: Graph,
    at: int,
    node: "onnx.NodeProto",
    tensors: Mapping[str, Array],
    last: bool,
) -> _Part | None:
    output = node.output[0]
    if tensors[output].dtype.kind != "f":
        return None
    rounded = graph.rounded(output)
    inputs = {name: tensors[name] for name in whole.activations(node)}
    model = graph.cut(inputs, {rounded: tensors[output]})
    if model is None:
        return None
    names = tuple(value.name for value in model.graph.input)
    operations = whole.operations(node, tensors[output])
    return _Part(at, node, names, output, rounded, model, _runner(model), last, operations)


def _runner(model: "onnx.ModelProto") -> "OnnxrtRunner":
    import onnxruntime
    from polygraphy.backend.onnxrt import OnnxrtRunner

    options: Any = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    options.log_severity_level = 4
    return OnnxrtRunner(
        onnxruntime.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])
    )


def _infer(runner: "OnnxrtRunner", tensors: Mapping[str, Array]) -> dict[str, Array]:
    return dict(runner.infer(dict(tensors), check_inputs=False))


def _confirm(
    source: "onnx.ModelProto",
    engine: "onnx.ModelProto",
    suspects: Sequence[_Part],
    samples: Sequence[Sample],
    least_db: float,
) -> tuple[_Part, float | None, bool]:
    """The first suspect behind which the engine is off, mostly by that suspect's own noise."""
    from polygraphy.backend.onnx import modify_outputs
    from polygraphy.comparator import Comparator

    feeds = [dict(sample.tensors) for sample in samples]
    for suspect in suspects:
        left = _runner(modify_outputs(source, [suspect.output], copy=True))
        right = _runner(modify_outputs(engine, [suspect.rounded], copy=True))
        (_, wanted), (_, got) = Comparator.run([left, right], data_loader=feeds)
        cut = Noise()
        for one, other in zip(wanted, got, strict=True):
            cut.add(one[suspect.output], other[suspect.rounded])
        own = suspect.noise.ratio >= OWN * min(cut.ratio, 1.0)
        off = cut.decibels
        if own and off is not None and off < least_db:
            return suspect, off, True
    return suspects[0], None, False


def _keep(culprit: _Part, tensors: Mapping[str, Array], key: str, out: Path) -> None:
    """The operator alone, with what goes in and what the source gives for it on one row."""
    import onnx

    onnx.save(culprit.model, str(out / MODEL))
    arrays: dict[str, Array] = {f"input.{at}": tensors[name] for at, name in enumerate(culprit.inputs)}
    arrays["names"] = np.array(culprit.inputs)
    arrays["wanted"] = tensors[culprit.output]
    arrays["row"] = np.array(key)
    with (out / TENSORS).open("wb") as stream:
        np.savez(stream, allow_pickle=False, **arrays)


def _sentence(culprit: _Part, cut: float | None, confirmed: bool) -> str:
    alone = culprit.noise.decibels
    own = "no error" if alone is None else f"{alone:.1f} dB of signal to noise"
    named = f"{culprit.node.op_type} {culprit.node.name!r}"
    if confirmed and cut is not None:
        return f"{named} explains it: {own} by itself, and {cut:.1f} dB in the engine cut behind it"
    return f"no operator explains it alone; what hurts most is {named}, with {own} by itself"


STEP = Step(
    name="bisect",
    revision=3,
    requires=("model", "engine", "sample"),
    accepts=(),
    outputs=(MODEL, TENSORS),
    parameters=BisectParameters,
    result=BisectResult,
    run=run,
)
