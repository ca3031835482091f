"""Sound small models of each format, the files that are then broken. Runs in the format's environment:

python -m tests.builder.fuzz.seeds FORMAT FOLDER
"""

import json
import sys
from pathlib import Path
from typing import Any

import numpy as np

from builder.data.samples import Sample, write_samples
from builder.steps.importing import ImportParameters
from builder.steps.sample import made_up
from registry.contract.versions import Dtype, Framework, Signature, SourceOptions, TensorSpec
from tests.builder import made

FEATURES = 4
TABLE = Signature(
    inputs=(TensorSpec(name="x", dtype=Dtype.FP32, shape=("batch", FEATURES)),),
    outputs=(TensorSpec(name="y", dtype=Dtype.FP32, shape=("batch", 1)),),
)
# The worker environment that reads the format; None: the worker's own.
ENVIRONMENTS = {
    "onnx": None,
    "onnx-old": None,
    "lightgbm": "trees",
    "skops": "trees",
    "pt2": "torch",
    "torchscript": "torch",
    "state-dict": "torch",
    "saved-model": "tensorflow",
}


def _rows() -> tuple[Any, Any]:
    generator = np.random.default_rng(5)
    table = generator.standard_normal((200, FEATURES)).astype(np.float32)
    return table, table @ np.array([1.0, -2.0, 0.5, 0.0]) + (table[:, 0] > 0)


def _lightgbm(folder: Path) -> None:
    import lightgbm

    table, wanted = _rows()
    options = {"num_leaves": 5, "verbose": -1, "num_threads": 1, "seed": 1}
    lightgbm.train(options, lightgbm.Dataset(table, wanted), 3).save_model(folder / "model.txt")


def _skops(folder: Path) -> None:
    from sklearn.linear_model import Ridge
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler
    from skops.io import dump

    dump(make_pipeline(StandardScaler(), Ridge()).fit(*_rows()), folder / "model.skops")


def _torch(folder: Path, form: str) -> None:
    import torch

    torch.manual_seed(1)
    module = torch.nn.Sequential(torch.nn.Linear(FEATURES, 3), torch.nn.ReLU(), torch.nn.Linear(3, 1)).eval()
    example = (torch.zeros(2, FEATURES),)
    if form == "pt2":
        free = {0: torch.export.Dim.DYNAMIC}
        torch.export.save(torch.export.export(module, example, dynamic_shapes=(free,)), folder / "model.pt2")
    elif form == "torchscript":
        torch.jit.save(torch.jit.trace(module, example), folder / "model.pt")
    else:
        torch.save(module.state_dict(), folder / "model.pt")
        (folder / "net.py").write_text(
            "from torch.nn import Linear, ReLU, Sequential\n\n\ndef build():\n"
            f"    return Sequential(Linear({FEATURES}, 3), ReLU(), Linear(3, 1))\n"
        )


def _saved_model(folder: Path) -> None:
    import tensorflow as tf

    weights = tf.Variable(np.ones((FEATURES, 1), np.float32))
    module = tf.Module()
    module.weights = weights
    spec = tf.TensorSpec([None, FEATURES], tf.float32, name="x")
    module.answer = tf.function(lambda x: {"y": tf.nn.relu(x @ weights)}, input_signature=[spec])
    tf.saved_model.save(module, str(folder), signatures={"serving_default": module.answer})


def write(form: str, folder: Path) -> None:
    """`version/` with the model's files, `sample.npz`, and `import.json` and `check.json`: parameters."""
    version = folder / "version"
    version.mkdir(parents=True)
    signature, source = TABLE, SourceOptions()
    match form:
        case "onnx" | "onnx-old":
            signature = made.SIGNATURE
            made.conv_model(version / "model.onnx", opset=17 if form == "onnx" else 11)
        case "lightgbm":
            _lightgbm(version)
        case "skops":
            _skops(version)
        case "saved-model":
            _saved_model(version)
        case _:
            _torch(version, form)
            source = SourceOptions(entry="net:build" if form == "state-dict" else None)
    framework = {
        "lightgbm": Framework.LIGHTGBM,
        "skops": Framework.SKLEARN,
        "saved-model": Framework.TENSORFLOW,
        "onnx": Framework.ONNX,
        "onnx-old": Framework.ONNX,
    }.get(form, Framework.PYTORCH)
    files = tuple(str(path.relative_to(version)) for path in sorted(version.rglob("*")) if path.is_file())
    importing = ImportParameters(framework=framework, files=files, source=source)
    if framework is not Framework.ONNX:
        importing = importing.model_copy(update={"signature": signature, "max_rows": 8})
    (folder / "import.json").write_text(importing.model_dump_json())
    (folder / "check.json").write_text(
        json.dumps({"signature": signature.model_dump(mode="json"), "target": "ort.cpu", "max_rows": 8})
    )
    write_samples(
        folder / "sample.npz", [Sample(row.key, row.tensors, b"{}") for row in made_up(signature, 4)]
    )


if __name__ == "__main__":
    write(sys.argv[1], Path(sys.argv[2]))
