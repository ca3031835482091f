"""scikit-learn estimators and pipelines → ONNX: from skops files, whose types are checked before anything is
made of them; from pickles only behind a sandbox's walls."""

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from builder.frontends import scores
from builder.frontends.plan import SKOPS
from builder.frontends.request import Array, Converted, Request
from builder.steps.step import Refused, first_line
from registry.contract.versions import Dtype

if TYPE_CHECKING:
    import onnx

# Beyond what skops itself takes for harmless: these hold numbers, and do nothing when they are made. A whole
# library is never trusted: among its functions there is always one that runs what it is given.
TRUSTED = frozenset(
    {
        "collections.OrderedDict",
        "lightgbm.basic.Booster",
        "lightgbm.sklearn.LGBMClassifier",
        "lightgbm.sklearn.LGBMRegressor",
        "xgboost.core.Booster",
        "xgboost.sklearn.XGBClassifier",
        "xgboost.sklearn.XGBRegressor",
    }
)


def convert(request: Request, out_model: Callable[["onnx.ModelProto"], None]) -> Converted:
    """Hands the model to `out_model`. Raises Refused."""
    import sklearn
    from skl2onnx import __max_supported_opset__, to_onnx
    from skl2onnx import __version__ as converter

    estimator = _load(request)
    _register_boosters()
    names, kind = _names(estimator)
    parts = scores.roles(request.signature, names)
    try:
        model = to_onnx(
            estimator,
            initial_types=_initial_types(request),
            target_opset={"": min(request.wanted_opset, __max_supported_opset__), "ai.onnx.ml": 3},
            options={"zipmap": False} if kind == "classifier" else None,
        )
    except Exception as error:  # missing converters, unknown shapes: the text is all that they share
        raise Refused(_why_not(estimator, error)) from error
    names = _outputs(model, names)
    produced = scores.adapt(model, request.signature, parts, names)
    out_model(model)
    steps = " → ".join(type(step).__name__ for step in _steps(estimator))
    return Converted(
        exporter=f"skl2onnx {converter}",
        produced=produced,
        reference=lambda inputs: scores.answers(
            request.signature, parts, _framework(estimator, names, _frame(request, inputs))
        ),
        notes=(f"{steps}, by scikit-learn {sklearn.__version__}",),
    )


def _load(request: Request) -> Any:
    if request.main.endswith(SKOPS):
        return _skops(request)
    import joblib

    try:
        return joblib.load(request.path)
    except Exception as error:  # it runs foreign code: anything may come
        raise Refused(
            f"{request.main} can't be unpickled: {type(error).__name__}: {error}; it needs the classes that "
            "it was saved with: save it with skops.io.dump(model, 'model.skops')"
        ) from error


def _skops(request: Request) -> Any:
    from skops.io import get_untrusted_types, load

    try:
        unknown = sorted(get_untrusted_types(file=request.path))
        foreign = [name for name in unknown if name not in TRUSTED]
        if foreign:
            raise Refused(
                f"{request.main} holds types that this worker doesn't trust: {', '.join(foreign)}; a skops "
                "file may hold scikit-learn, NumPy, SciPy, LightGBM and XGBoost only"
            )
        return load(request.path, trusted=unknown)
    except Refused:
        raise
    except Exception as error:  # faults of archives, of schemas, of arrays, of what is made of them
        raise Refused(
            f"{request.main} is no sound skops file ({first_line(error)}); save it again with skops.io.dump"
        ) from error


def _register_boosters() -> None:
    """LightGBM's and XGBoost's estimators as parts of a pipeline."""
    from lightgbm import LGBMClassifier, LGBMRegressor
    from onnxmltools.convert.lightgbm.operator_converters.LightGbm import convert_lightgbm
    from onnxmltools.convert.xgboost.operator_converters.XGBoost import convert_xgboost
    from skl2onnx import update_registered_converter
    from skl2onnx.common.shape_calculator import (
        calculate_linear_classifier_output_shapes,
        calculate_linear_regressor_output_shapes,
    )
    from xgboost import XGBClassifier, XGBRegressor

    options = {"nocl": [True, False], "zipmap": [True, False, "columns"]}
    for made, name, shapes, converter, known in (
        (
            LGBMClassifier,
            "LightGbmLGBMClassifier",
            calculate_linear_classifier_output_shapes,
            convert_lightgbm,
            options,
        ),
        (
            LGBMRegressor,
            "LightGbmLGBMRegressor",
            calculate_linear_regressor_output_shapes,
            convert_lightgbm,
            {"split": None},
        ),
        (
            XGBClassifier,
            "XGBoostXGBClassifier",
            calculate_linear_classifier_output_shapes,
            convert_xgboost,
            options,
        ),
        (
            XGBRegressor,
            "XGBoostXGBRegressor",
            calculate_linear_regressor_output_shapes,
            convert_xgboost,
            None,
        ),
    ):
        update_registered_converter(made, name, shapes, converter, options=known)


def _names(estimator: Any) -> tuple[scores.Names, str]:
    """What it answers; the ONNX outputs' own names follow from the conversion."""
    from sklearn.base import is_classifier

    if is_classifier(estimator):
        with_scores = hasattr(estimator, "predict_proba")
        return scores.Names(
            label="label",
            scores="scores" if with_scores else None,
            classes=len(getattr(estimator, "classes_", ())),
        ), "classifier"
    if hasattr(estimator, "predict") or hasattr(estimator, "transform"):
        return scores.Names(value="value"), "other"
    raise Refused(
        f"{type(estimator).__name__} neither predicts nor transforms; register the fitted estimator or "
        "pipeline"
    )


def _outputs(model: "onnx.ModelProto", names: scores.Names) -> scores.Names:
    found = [value.name for value in model.graph.output]
    if names.value is not None:
        return scores.Names(value=found[0])
    return scores.Names(
        label=found[0], scores=found[1] if names.scores and len(found) > 1 else None, classes=names.classes
    )


def _initial_types(request: Request) -> list[tuple[str, Any]]:
    from skl2onnx.common.data_types import (
        BooleanTensorType,
        DoubleTensorType,
        FloatTensorType,
        Int32TensorType,
        Int64TensorType,
        StringTensorType,
    )

    kinds = {
        Dtype.FP32: FloatTensorType,
        Dtype.FP64: DoubleTensorType,
        Dtype.INT32: Int32TensorType,
        Dtype.INT64: Int64TensorType,
        Dtype.BOOL: BooleanTensorType,
        Dtype.BYTES: StringTensorType,
    }
    found = []
    for spec in request.signature.inputs:
        if spec.dtype not in kinds or len(spec.shape) != 2:
            raise Refused(
                f"input {spec.name!r} is {spec.dtype}{list(spec.shape)}, and a scikit-learn model takes "
                f"tables; declare {', '.join(kinds)} with two axes: [batch, features], or [batch, 1] for "
                "each column"
            )
        found.append(
            (spec.name, kinds[spec.dtype]([None, spec.shape[1] if isinstance(spec.shape[1], int) else None]))
        )
    return found


def _frame(request: Request, inputs: Mapping[str, Array]) -> Any:
    """One table as it is; several inputs as the columns that a pipeline selects by name."""
    if len(request.signature.inputs) == 1:
        return inputs[request.signature.inputs[0].name]
    import pandas

    columns = {}
    for spec in request.signature.inputs:
        array = inputs[spec.name]
        columns[spec.name] = [str(item) for item in array[:, 0]] if spec.dtype is Dtype.BYTES else array[:, 0]
    return pandas.DataFrame(columns)


def _framework(estimator: Any, names: scores.Names, table: Any) -> dict[str, Array]:
    if names.value is not None:
        answer = estimator.predict if hasattr(estimator, "predict") else estimator.transform
        found = np.asarray(answer(table))
        return {"value": found.reshape(len(found), -1)}
    answers = {"label": np.asarray(estimator.predict(table))}
    if names.scores is not None:
        answers["scores"] = np.asarray(estimator.predict_proba(table))
    return answers


def _steps(estimator: Any) -> list[Any]:
    return [step for _, step in estimator.steps] if hasattr(estimator, "steps") else [estimator]


def _why_not(estimator: Any, error: Exception) -> str:
    """Names the part of a pipeline that has no converter."""
    from skl2onnx._supported_operators import sklearn_operator_name_map

    missing = [
        f"{type(step).__module__}.{type(step).__name__}"
        for step in _steps(estimator)
        if step not in ("passthrough", "drop") and type(step) not in sklearn_operator_name_map
    ]
    named = f" ({', '.join(missing)} has no converter)" if missing else ""
    first = first_line(error)
    return (
        f"the scikit-learn model can't be converted{named}: {first}; use an estimator that skl2onnx "
        "converts, or do that part in the version's pre-processing"
    )
