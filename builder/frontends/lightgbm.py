"""LightGBM text models → ONNX, exact for the numbers that the contract lets in.

LightGBM compares doubles. For a contract in FP32 each threshold is rounded down to the next FP32 number,
which leaves every comparison of an FP32 number as it is; a contract in FP64 keeps the doubles ("double
path"). What FP32 loses before the model sees it is found by the probes beside the thresholds.
"""

from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from builder.frontends import scores
from builder.frontends.ensembles import Trees, branches, operators, ranges, read_trees
from builder.frontends.lightgbmtext import sound_text
from builder.frontends.probes import probes
from builder.frontends.request import Array, Converted, Request
from builder.frontends.tabular import one_table, write
from builder.steps.step import Refused, first_line

if TYPE_CHECKING:
    import onnx

IDENTITY = (
    "regression",
    "regression_l1",
    "huber",
    "fair",
    "quantile",
    "mape",
    "lambdarank",
    "rank_xendcg",
    "custom",
    "none",
)
EXPONENTIAL = ("poisson", "gamma", "tweedie")
SIGMOID = ("binary", "cross_entropy", "multiclassova")


def convert(request: Request, out_model: Callable[["onnx.ModelProto"], None]) -> Converted:
    """Hands the model to `out_model`. Raises Refused."""
    import lightgbm

    text = sound_text(request.path, request.main)
    try:
        booster = lightgbm.Booster(model_str=text)
        dump: dict[str, Any] = booster.dump_model()
    except (lightgbm.basic.LightGBMError, ValueError) as error:
        raise Refused(
            f"{request.main} is no LightGBM text model ({first_line(error)}); save it with "
            "booster.save_model('model.txt') and register that file"
        ) from error
    table = one_table(request, booster.num_feature())
    objective, options = _objective(dump)
    trees = read_trees(dump)
    targets = int(dump["num_tree_per_iteration"])
    classes = targets if targets > 1 else 2 if objective in ("binary",) else 0
    names = (
        scores.Names(label="label", scores="scores", classes=classes)
        if classes
        else scores.Names(value="value")
    )
    parts = scores.roles(request.signature, names)
    model = write(
        request,
        table,
        _graph(trees, booster.num_feature(), objective, options, targets, table.dtype),
    )
    produced = scores.adapt(model, request.signature, parts, names)
    out_model(model)

    def framework(rows: npt.NDArray[Any]) -> Mapping[str, Array]:
        found = np.asarray(booster.predict(rows))
        if not classes:
            return {"value": found.reshape(len(rows), -1)}
        both = np.stack([1 - found, found], axis=1) if classes == 2 and targets == 1 else found
        return {"label": both.argmax(axis=1), "scores": both}

    return Converted(
        exporter=f"slipway-lightgbm {lightgbm.__version__}",
        produced=produced,
        reference=lambda inputs: scores.answers(request.signature, parts, framework(table.rows(inputs))),
        notes=(f"objective {objective}, {len(trees.roots)} trees",),
        probes=tuple(probes(branches(dump), ranges(dump), dump["feature_names"])),
        decide=lambda rows: scores.answers(request.signature, parts, framework(rows)),
        table=table,
    )


def _objective(dump: Mapping[str, Any]) -> tuple[str, Mapping[str, str]]:
    """Its name, and what stands behind it (`sigmoid:1`)."""
    words = str(dump.get("objective", "custom")).split()
    name = words[0] if words else "custom"
    known = (*IDENTITY, *EXPONENTIAL, *SIGMOID, "multiclass", "cross_entropy_lambda")
    if name not in known:
        raise Refused(
            f"this worker doesn't know what LightGBM's objective {name!r} does to the trees' sum; it knows "
            f"{', '.join(known)}: train with one of them"
        )
    return name, {key: value for key, _, value in (word.partition(":") for word in words[1:])}


def _graph(
    trees: Trees,
    features: int,
    objective: str,
    options: Mapping[str, str],
    targets: int,
    dtype: np.dtype[Any],
) -> Iterator["onnx.NodeProto"]:
    """From `table` to `value`, or to `scores` and `label`."""
    yield from operators(trees, features, targets, dtype)
    yield from _transform(objective, options, targets, dtype)


def _transform(
    objective: str, options: Mapping[str, str], targets: int, dtype: np.dtype[Any]
) -> Iterator["onnx.NodeProto"]:
    from onnx import helper, numpy_helper

    def constant(name: str, value: float) -> "onnx.NodeProto":
        return helper.make_node(
            "Constant", [], [name], value=numpy_helper.from_array(np.asarray(value, dtype))
        )

    if objective in SIGMOID:
        yield constant("steepness", float(options.get("sigmoid", 1.0)))
        yield helper.make_node("Mul", ["raw", "steepness"], ["scaled"])
        last = "value" if objective == "cross_entropy" else "each"
        yield helper.make_node("Sigmoid", ["scaled"], [last])
    if objective == "multiclass":
        yield helper.make_node("Softmax", ["raw"], ["each"], axis=1)
    if objective == "binary":
        yield constant("one", 1.0)
        yield helper.make_node("Sub", ["one", "each"], ["other"])
        yield helper.make_node("Concat", ["other", "each"], ["scores"], axis=1)
    elif objective in ("multiclass", "multiclassova") or targets > 1:
        yield helper.make_node(
            "Identity", ["each" if objective.startswith("multiclass") else "raw"], ["scores"]
        )
    if objective in ("binary", "multiclass", "multiclassova") or targets > 1:
        yield helper.make_node("ArgMax", ["scores"], ["label"], axis=1, keepdims=0)
    elif objective in EXPONENTIAL:
        yield helper.make_node("Exp", ["raw"], ["value"])
    elif objective == "cross_entropy_lambda":
        yield helper.make_node("Softplus", ["raw"], ["value"])
    elif objective in IDENTITY and "sqrt" in options:
        yield helper.make_node("Abs", ["raw"], ["magnitude"])
        yield helper.make_node("Mul", ["raw", "magnitude"], ["value"])
    elif objective in IDENTITY:
        yield helper.make_node("Identity", ["raw"], ["value"])
