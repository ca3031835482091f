"""XGBoost models in their own formats (JSON, UBJSON) → ONNX. XGBoost itself works in FP32."""

import math
from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from builder.frontends import scores
from builder.frontends.probes import Branch, probes
from builder.frontends.request import Array, Converted, Request
from builder.frontends.tabular import is_double, one_table
from builder.steps.step import Refused, first_line

if TYPE_CHECKING:
    import onnx

TABLE = "slipway_table"
# Of the converter; the check step upgrades what it writes.
NEWEST_OPSET = 15


def convert(request: Request, out_model: Callable[["onnx.ModelProto"], None]) -> Converted:
    """Hands the model to `out_model`. Raises Refused."""
    import xgboost
    from onnxmltools import __version__ as converter
    from onnxmltools import convert_xgboost
    from onnxmltools.convert.common.data_types import FloatTensorType

    booster = _loaded(request)
    features = booster.num_features()
    table = one_table(request, features)
    described = _described(booster)
    objective = described["learner"]["objective"]["name"]
    classes = _classes(described, objective)
    try:
        model = convert_xgboost(
            booster,
            initial_types=[(TABLE, FloatTensorType([None, features]))],
            target_opset=min(request.wanted_opset, NEWEST_OPSET),
        )
    except Exception as error:
        raise Refused(
            f"the XGBoost model can't be converted ({objective}): {error}; boosters gbtree and dart with "
            "numeric features can"
        ) from error
    outputs = [value.name for value in model.graph.output]
    names = (
        scores.Names(label=outputs[0], scores=outputs[1], classes=classes)
        if classes
        else scores.Names(value=outputs[0])
    )
    parts = scores.roles(request.signature, names)
    _lead_in(model, request, double=is_double(table))
    produced = scores.adapt(model, request.signature, parts, names)
    out_model(model)

    def framework(rows: npt.NDArray[Any]) -> Mapping[str, Array]:
        found = np.asarray(booster.predict(xgboost.DMatrix(rows)))
        if not classes:
            return {"value": found.reshape(len(rows), -1)}
        if found.ndim == 1 and objective == "multi:softmax":
            raise Refused(
                "multi:softmax gives labels only: train with multi:softprob, which also gives scores"
            )
        both = np.stack([1 - found, found], axis=1) if found.ndim == 1 else found
        return {"label": both.argmax(axis=1), "scores": both}

    return Converted(
        exporter=f"onnxmltools {converter}",
        produced=produced,
        reference=lambda inputs: scores.answers(request.signature, parts, framework(table.rows(inputs))),
        notes=(f"objective {objective}, by XGBoost {xgboost.__version__}",),
        probes=tuple(_probes(described, features)),
        decide=lambda rows: scores.answers(request.signature, parts, framework(rows)),
        table=table,
    )


def _loaded(request: Request) -> Any:
    import xgboost

    booster = xgboost.Booster()
    try:
        booster.load_model(str(request.path))
    except xgboost.core.XGBoostError as error:
        raise Refused(
            f"{request.main} is no XGBoost model ({first_line(error)}); save it with "
            "booster.save_model('model.ubj') and register that file"
        ) from error
    booster.feature_names = booster.feature_types = None
    return booster


def _described(booster: Any) -> dict[str, Any]:
    import json

    found: dict[str, Any] = json.loads(booster.save_raw("json"))
    return found


def _classes(described: Mapping[str, Any], objective: str) -> int:
    """0 for a regressor."""
    if objective.startswith("multi:"):
        return int(described["learner"]["learner_model_param"]["num_class"])
    return 2 if objective == "binary:logistic" else 0


def _lead_in(model: "onnx.ModelProto", request: Request, *, double: bool) -> None:
    """The contract's inputs before the converter's one; doubles are rounded as XGBoost itself rounds them."""
    import onnx
    from onnx import helper, numpy_helper

    graph = model.graph
    specs = request.signature.inputs
    element = onnx.TensorProto.DOUBLE if double else onnx.TensorProto.FLOAT
    column = numpy_helper.from_array(np.array([-1, 1], np.int64), "slipway_column")
    lead: list[onnx.NodeProto] = []
    joined = specs[0].name
    if len(specs) > 1:
        graph.initializer.append(column)
        lead += [
            helper.make_node("Reshape", [spec.name, column.name], [f"{spec.name}.column"]) for spec in specs
        ]
        joined = "slipway_joined"
        lead.append(helper.make_node("Concat", [f"{spec.name}.column" for spec in specs], [joined], axis=1))
    lead.append(helper.make_node("Cast", [joined], [TABLE], to=onnx.TensorProto.FLOAT))
    rest = list(graph.node)
    del graph.node[:]
    graph.node.extend([*lead, *rest])
    del graph.input[:]
    graph.input.extend(helper.make_tensor_value_info(spec.name, element, list(spec.shape)) for spec in specs)


def _probes(described: Mapping[str, Any], features: int) -> Iterator[Any]:
    """The file doesn't tell the features' ranges: those of their thresholds stand for them."""
    found = described["learner"]["gradient_booster"]
    model = found["gbtree"]["model"] if "gbtree" in found else found.get("model", {})
    trees = [tree for tree in model.get("trees", ()) if not any(tree["split_type"])]
    ranges = np.full((features, 2), math.nan)
    for tree in trees:
        for feature, left, value in zip(
            tree["split_indices"], tree["left_children"], tree["split_conditions"], strict=True
        ):
            if left >= 0:
                ranges[feature] = np.fmin(ranges[feature][0], value), np.fmax(ranges[feature][1], value)
    names = [f"f{at}" for at in range(features)]
    return probes((_branch(tree, 0) for tree in trees), ranges, names)


def _branch(tree: Mapping[str, Any], at: int) -> Branch:
    if tree["left_children"][at] < 0:
        return Branch(-1, 0.0, ())
    sides = (_branch(tree, tree["left_children"][at]), _branch(tree, tree["right_children"][at]))
    return Branch(int(tree["split_indices"][at]), float(tree["split_conditions"][at]), sides)
