"""Pictures of 320 × 320 and a small network that reads them: for what grows with pictures."""

import io
from pathlib import Path

import numpy as np
from onnx import TensorProto, helper, numpy_helper
from PIL import Image as Pillow

from builder.search.rules import CALIBRATORS
from builder.steps.calibrate import CalibrateParameters
from registry.contract.pipeline import Image, PipelineSpec, Resize, Tensors
from registry.contract.versions import Dtype, Signature, TensorSpec
from tests.builder import made

SIDE = 320
SIGNATURE = Signature(
    inputs=(TensorSpec(name="image", dtype=Dtype.FP32, shape=("n", 3, SIDE, SIDE)),),
    outputs=(TensorSpec(name="scores", dtype=Dtype.FP32, shape=("n", 16)),),
)
PIPELINE = PipelineSpec(
    pre=(Image(output="image", resize=Resize(width=SIDE, height=SIDE), scale=1 / 255),), post=(Tensors(),)
)


def model(path: Path) -> Path:
    """Three convolutions and an average."""
    generator = np.random.default_rng(1)
    nodes, stored, last, channels = [], [], "image", 3
    for at, width in enumerate((8, 16, 16)):
        kernel = generator.standard_normal((width, channels, 3, 3)).astype(np.float32) / 4
        stored.append(numpy_helper.from_array(kernel, f"kernel{at}"))
        nodes += [
            helper.make_node(
                "Conv",
                [last, f"kernel{at}"],
                [f"maps{at}"],
                f"conv{at}",
                kernel_shape=[3, 3],
                pads=[1] * 4,
                strides=[1 + (at > 0)] * 2,
            ),
            helper.make_node("Relu", [f"maps{at}"], [f"active{at}"], f"relu{at}"),
        ]
        last, channels = f"active{at}", width
    nodes += [
        helper.make_node("GlobalAveragePool", [last], ["pooled"], "pool"),
        helper.make_node("Flatten", ["pooled"], ["scores"], "flatten"),
    ]
    graph = helper.make_graph(
        nodes,
        "pictures",
        [helper.make_tensor_value_info("image", TensorProto.FLOAT, ["n", 3, SIDE, SIDE])],
        [helper.make_tensor_value_info("scores", TensorProto.FLOAT, ["n", 16])],
        stored,
    )
    return made.save(graph, path)


def rows(folder: Path, count: int) -> Path:
    """A calibration set of smooth pictures, no two the same."""
    generator = np.random.default_rng(2)
    raws = []
    for _ in range(count):
        coarse = Pillow.fromarray(generator.integers(0, 256, (8, 8, 3), np.uint8))
        stream = io.BytesIO()
        coarse.resize((SIDE, SIDE)).save(stream, "JPEG")
        raws.append(stream.getvalue())
    return made.raw_set(folder, raws, [None] * count, kind="calibration")


def calibrate(model: Path, folder: Path, out: Path) -> list[str]:
    """Arguments of `python -m builder.steps`: both passes, all calibrators."""
    parameters = CalibrateParameters(
        target="ort.cpu", signature=SIGNATURE, pipeline=PIPELINE, calibrators=CALIBRATORS
    )
    inputs = ["--input", f"model={model}", "--input", f"rows={folder}"]
    return ["calibrate", *inputs, "--parameters", parameters.model_dump_json(), "--out", str(out)]
