"""SavedModels, imported in the TensorFlow environment: `python -m … HOME BASIC_PITCH_FOLDER`."""

import sys
from pathlib import Path

import keras
import numpy as np
import tensorflow as tf

from builder.steps.engines import opened
from registry.contract.versions import Dtype, Framework, SourceOptions
from tests.builder.frontends.inside.cases import Cases, signature, tensor

SOUND = signature(
    tensor("input_2", "batch", 43844, 1),
    tensor("note", "batch", 172, 88),
    tensor("onset", "batch", 172, 88),
    tensor("contour", "batch", 172, 264),
    outputs=3,
)
# How basic-pitch's own ONNX file calls them.
SHIPPED = {
    "note": "StatefulPartitionedCall:1",
    "onset": "StatefulPartitionedCall:2",
    "contour": "StatefulPartitionedCall:0",
}
WORDS = signature(tensor("tokens", "batch", "length", dtype=Dtype.INT32), tensor("scores", "batch", 3))


def basic_pitch(cases: Cases, folder: Path) -> None:
    """A real SavedModel by Keras 2, against the ONNX file that its authors made of it."""
    import onnxruntime

    case = cases.bring("pitch", SOUND, folder=folder / "nmp", max_rows=3)
    if case.ending != "done":
        return
    own = onnxruntime.InferenceSession(str(folder / "nmp.onnx"))
    sound = np.random.default_rng(0).standard_normal((2, 43844, 1)).astype(np.float32) * 0.1
    wanted = own.run(list(SHIPPED.values()), {own.get_inputs()[0].name: sound})
    with opened(cases.model("pitch"), "ort.cpu") as engine:
        got = engine.infer({"input_2": sound})
    case.facts["worst"] = max(
        float(np.abs(got[name] - array).max()) for name, array in zip(SHIPPED, wanted, strict=True)
    )


def recurrent(cases: Cases) -> None:
    """A Keras LSTM that masks its padding, with batch and length open."""
    tokens = keras.Input((None,), dtype="int32", name="tokens")
    words = keras.layers.Embedding(40, 8, mask_zero=True)(tokens)
    scores = keras.layers.Dense(3, activation="softmax", name="scores")(keras.layers.LSTM(12)(words))
    keras.Model(tokens, scores).export(str(cases.folder("text")), verbose=False)
    case = cases.bring("text", WORDS)
    if case.ending == "done":
        alone = np.array([[5, 9, 11, 2]], np.int32)
        padded = np.array([[5, 9, 11, 2, 0, 0, 0], [1, 2, 3, 4, 5, 6, 7]], np.int32)
        with opened(cases.model("text"), "ort.cpu") as engine:
            off = engine.infer({"tokens": padded})["scores"][0] - engine.infer({"tokens": alone})["scores"][0]
        case.facts["padding"] = float(np.abs(off).max())


class Odd(tf.Module):
    """One signature with an operator that ONNX doesn't have, one with frozen rows."""

    @tf.function(input_signature=[tf.TensorSpec([None, 4], tf.float32, name="x")])
    def odd(self, x: tf.Tensor) -> dict[str, tf.Tensor]:
        return {"y": tf.math.bessel_i0e(x)}

    @tf.function(input_signature=[tf.TensorSpec([1, 4], tf.float32, name="x")])
    def frozen(self, x: tf.Tensor) -> dict[str, tf.Tensor]:
        return {"y": tf.reshape(tf.reshape(x, [1, 2, 2]), [1, 4]) + 1.0}


def refused(cases: Cases) -> None:
    module = Odd()
    folder = cases.folder("odd")
    tf.saved_model.save(module, str(folder), signatures={"odd": module.odd, "frozen": module.frozen})
    spec = signature(tensor("x", "batch", 4), tensor("y", "batch", 4))
    cases.bring("odd", spec, source=SourceOptions(function="odd"))
    cases.bring("frozen", spec, folder=folder, source=SourceOptions(function="frozen"))
    cases.bring("unnamed", spec, folder=folder)
    other = signature(tensor("x", "batch", 4), tensor("z", "batch", 4), tensor("w", "batch", 4), outputs=2)
    cases.bring("others", other, folder=folder, source=SourceOptions(function="frozen"))


def main(home: Path, folder: Path) -> None:
    keras.utils.set_random_seed(0)
    cases = Cases(home, Framework.TENSORFLOW)
    recurrent(cases)
    basic_pitch(cases, folder)
    refused(cases)
    cases.write()


if __name__ == "__main__":
    main(*(Path(argument) for argument in sys.argv[1:]))
