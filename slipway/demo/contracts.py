"""The demo's versions: the right contract, and the faults that version 3 can be given."""

from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

from registry.contract.pipeline import ByteWindow, Classify, PipelineSpec
from registry.contract.versions import (
    BatchRule,
    Dtype,
    Observable,
    Signature,
    TensorSpec,
    VersionContract,
)
from slipway.demo.assets import Assets

WIDTH = 2048


class Fault(StrEnum):
    """What is wrong with version 3. `window`: its pre-processing cuts one position further on."""

    NONE = "none"
    WINDOW = "window"
    LABELS = "labels"
    NOISE = "noise"
    ERRORS = "errors"
    LATENCY = "latency"


@dataclass(frozen=True)
class Package:
    """What is registered as one version."""

    model: Path
    contract: VersionContract


def contract(assets: Assets, *, golden: bool, offset: int = 0, shift_labels: int = 0) -> VersionContract:
    """Signature, processing and observables of the classifier."""
    labels = assets.labels[shift_labels:] + assets.labels[:shift_labels]
    window = ByteWindow(
        output="bytes",
        head=assets.head,
        tail=assets.tail,
        block=assets.block,
        pad=assets.pad,
        offset=offset,
    )
    return VersionContract(
        signature=Signature(
            inputs=(TensorSpec(name="bytes", dtype=Dtype.INT32, shape=("n", WIDTH)),),
            outputs=(TensorSpec(name="target_label", dtype=Dtype.FP32, shape=("n", len(labels))),),
        ),
        pipeline=PipelineSpec(pre=(window,), post=(Classify(output="target_label", labels=labels),)),
        observables=(
            Observable(name="label", kind="class", source="label", labels=labels[:200]),
            Observable(name="score", kind="score", source="score"),
        ),
        batch=BatchRule(max_rows=16),
        golden="golden.jsonl" if golden else None,
    )


def faulty(fault: Fault, assets: Assets, folder: Path) -> Package:
    """Version 3: registered without golden pairs, as careless people do."""
    if fault is Fault.WINDOW:
        return Package(assets.model, contract(assets, golden=False, offset=1))
    if fault is Fault.LABELS:
        return Package(assets.model, contract(assets, golden=False, shift_labels=1))
    right = contract(assets, golden=False)
    if fault is Fault.NONE:
        return Package(assets.model, right)
    graph = onnx.load(str(assets.model))
    {Fault.NOISE: _noise, Fault.ERRORS: _errors, Fault.LATENCY: _latency}[fault](graph.graph)
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / "model.onnx"
    onnx.checker.check_model(graph)
    onnx.save(graph, str(path))
    return Package(path, right)


def _rename_input(graph: onnx.GraphProto, new: str) -> None:
    """Everything that read `bytes` reads `new`."""
    for node in graph.node:
        for at, name in enumerate(node.input):
            if name == "bytes":
                node.input[at] = new


def _constant(graph: onnx.GraphProto, name: str, value: np.ndarray) -> str:
    graph.initializer.append(numpy_helper.from_array(value, name))
    return name


def _prepend(graph: onnx.GraphProto, nodes: list[onnx.NodeProto]) -> None:
    rest = list(graph.node)
    del graph.node[:]
    graph.node.extend(nodes + rest)


def _noise(graph: onnx.GraphProto) -> None:
    """Every fourth position is another one's byte: a fixed share of the input is altered."""
    _rename_input(graph, "noisy")
    order = np.arange(WIDTH)
    order[::4] = order[::4][::-1]
    index = _constant(graph, "noise_order", order.astype(np.int64))
    _prepend(graph, [helper.make_node("Gather", ["bytes", index], ["noisy"], axis=1)])


def _errors(graph: onnx.GraphProto) -> None:
    """Looks up the first byte in a table that ends at 125: inputs that begin with a higher one fail."""
    _rename_input(graph, "checked")
    table = _constant(graph, "table", np.zeros(126, np.int32))
    first = _constant(graph, "first", np.array([0], np.int64))
    _prepend(
        graph,
        [
            helper.make_node("Gather", ["bytes", first], ["first_byte"], axis=1),
            helper.make_node("Gather", [table, "first_byte"], ["looked_up"], axis=0),
            helper.make_node("Add", ["bytes", "looked_up"], ["checked"]),
        ],
    )


def _latency(graph: onnx.GraphProto) -> None:
    """Needless matrix products whose result is multiplied by zero."""
    _rename_input(graph, "late")
    square = _constant(graph, "square", np.eye(WIDTH, dtype=np.float32) * np.float32(0.5))
    nodes = [helper.make_node("Cast", ["bytes"], ["busy_0"], to=TensorProto.FLOAT)]
    nodes += [helper.make_node("MatMul", [f"busy_{at}", square], [f"busy_{at + 1}"]) for at in range(12)]
    zero = _constant(graph, "zero", np.array(0.0, np.float32))
    nodes += [
        helper.make_node("Mul", ["busy_12", zero], ["nothing"]),
        helper.make_node("Cast", ["nothing"], ["nothing_int"], to=TensorProto.INT32),
        helper.make_node("Add", ["bytes", "nothing_int"], ["late"]),
    ]
    _prepend(graph, nodes)
