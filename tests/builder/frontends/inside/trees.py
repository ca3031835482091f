"""LightGBM, XGBoost and scikit-learn models, imported in the trees environment: `python -m … HOME`."""

import pickle
import sys
from pathlib import Path

import lightgbm
import numpy as np
import skops.io
import xgboost
from pandas import DataFrame
from sklearn.compose import ColumnTransformer
from sklearn.datasets import load_diabetes, load_digits
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer, OneHotEncoder, StandardScaler

from builder.steps.engines import opened
from registry.contract.recipes import ImportOptions
from registry.contract.versions import Dtype, Framework, Signature
from tests.builder.frontends.inside.cases import Cases, signature, tensor

DIGITS, DIGIT_LABELS = load_digits(return_X_y=True)
DIABETES, PROGRESS = load_diabetes(return_X_y=True)
QUIET = {"verbose": -1, "num_leaves": 8, "num_threads": 1}
LABEL = tensor("label", "batch", dtype=Dtype.INT64)
TEN = signature(tensor("x", "batch", 64), LABEL, tensor("scores", "batch", 10), outputs=2)
VALUE = signature(tensor("x", "batch", 10), tensor("value", "batch", 1))


def wide(dtype: Dtype) -> Signature:
    return signature(
        tensor("x", "batch", 2, dtype=dtype), LABEL, tensor("p", "batch", 1, dtype=dtype), outputs=2
    )


def far_away() -> tuple[np.ndarray, np.ndarray]:
    """A feature near 1e7 that moves by a few units, and one around zero."""
    generator = np.random.default_rng(0)
    rows = np.column_stack([1e7 + generator.standard_normal(1500) * 3, generator.standard_normal(1500)])
    return rows, rows[:, 0] - 1e7 + rows[:, 1] > 0


def lightgbm_models(home: Path) -> Cases:
    cases = Cases(home / "lightgbm", Framework.LIGHTGBM)
    digits = lightgbm.train(
        {**QUIET, "objective": "multiclass", "num_class": 10}, lightgbm.Dataset(DIGITS, DIGIT_LABELS), 10
    )
    for name in ("classifier", "again"):
        digits.save_model(cases.folder(name) / "model.txt")
        case = cases.bring(name, TEN)
    with opened(cases.model("classifier"), "ort.cpu") as engine:
        labels = engine.infer({"x": DIGITS.astype(np.float32)})["label"]
    case.facts["equal labels"] = int((labels == digits.predict(DIGITS).argmax(axis=1)).sum())
    case.facts["rows"] = len(DIGITS)
    for objective in ("regression", "poisson", "cross_entropy"):
        target = PROGRESS / PROGRESS.max()
        made = lightgbm.train({**QUIET, "objective": objective}, lightgbm.Dataset(DIABETES, target), 10)
        made.save_model(cases.folder(objective) / "model.txt")
        cases.bring(objective, VALUE)
    rows, sides = far_away()
    far = lightgbm.train({**QUIET, "objective": "binary"}, lightgbm.Dataset(rows, sides), 10)
    for name, dtype, options in (
        ("far", Dtype.FP32, None),
        ("far-double", Dtype.FP64, None),
        ("far-accepted", Dtype.FP32, ImportOptions(accept_threshold_flips=True)),
    ):
        far.save_model(cases.folder(name) / "model.txt")
        cases.bring(name, wide(dtype), options=options)
    categories(cases)
    (cases.folder("damaged") / "model.txt").write_text(digits.model_to_string()[:900])
    cases.bring("damaged", TEN)
    digits.save_model(cases.folder("narrow") / "model.txt")
    cases.bring("narrow", VALUE)
    return cases


def categories(cases: Cases) -> None:
    """A categorical feature, and missing values in another."""
    generator = np.random.default_rng(1)
    rows = np.column_stack([generator.integers(0, 12, 2000).astype(float), generator.standard_normal(2000)])
    rows[::7, 1] = np.nan
    target = rows[:, 0] % 3 + np.nan_to_num(rows[:, 1])
    made = lightgbm.train(
        {**QUIET, "objective": "regression"}, lightgbm.Dataset(rows, target, categorical_feature=[0]), 10
    )
    made.save_model(cases.folder("categories") / "model.txt")
    case = cases.bring("categories", signature(tensor("x", "batch", 2), tensor("value", "batch", 1)))
    odd = np.array([[-3, 0.2], [np.nan, 0.1], [3.7, np.nan], [100, 0], [4, np.nan]], np.float32)
    with opened(cases.model("categories"), "ort.cpu") as engine:
        got = engine.infer({"x": odd})["value"].ravel()
    case.facts["odd"] = float(np.abs(got - made.predict(odd.astype(float))).max())


def xgboost_models(home: Path) -> Cases:
    cases = Cases(home / "xgboost", Framework.XGBOOST)
    quiet = {"n_estimators": 8, "max_depth": 4, "n_jobs": 1}
    digits = xgboost.XGBClassifier(**quiet).fit(DIGITS, DIGIT_LABELS)
    digits.save_model(cases.folder("classifier") / "model.ubj")
    cases.bring("classifier", TEN)
    xgboost.XGBRegressor(**quiet).fit(DIABETES, PROGRESS).save_model(cases.folder("regressor") / "model.json")
    cases.bring("regressor", VALUE)
    xgboost.XGBClassifier(**quiet).fit(*far_away()).save_model(cases.folder("far") / "model.json")
    cases.bring("far", wide(Dtype.FP32))
    return cases


def sklearn_models(home: Path) -> Cases:
    cases = Cases(home / "sklearn", Framework.SKLEARN)
    pipeline = make_pipeline(StandardScaler(), LogisticRegression(max_iter=200)).fit(DIGITS, DIGIT_LABELS)
    skops.io.dump(pipeline, cases.folder("pipeline") / "model.skops")
    cases.bring("pipeline", TEN)
    (cases.folder("pickled") / "model.pkl").write_bytes(pickle.dumps(pipeline))
    cases.bring("pickled", TEN)
    boosted = make_pipeline(StandardScaler(), lightgbm.LGBMClassifier(n_estimators=3, verbose=-1, n_jobs=1))
    skops.io.dump(boosted.fit(DIGITS, DIGIT_LABELS), cases.folder("boosted") / "model.skops")
    cases.bring("boosted", TEN)
    columns(cases)
    odd = make_pipeline(FunctionTransformer(np.sin), LogisticRegression(max_iter=200))
    skops.io.dump(odd.fit(DIGITS, DIGIT_LABELS), cases.folder("odd") / "model.skops")
    cases.bring("odd", TEN)
    foreign = make_pipeline(FunctionTransformer(np.sinc), LogisticRegression(max_iter=200))
    skops.io.dump(foreign.fit(DIGITS, DIGIT_LABELS), cases.folder("foreign") / "model.skops")
    cases.bring("foreign", TEN)
    return cases


def columns(cases: Cases) -> None:
    """A pipeline that takes its columns by name, one of them text."""
    generator = np.random.default_rng(2)
    colours = np.array(["red", "green", "blue"])[generator.integers(0, 3, 200)]
    frame = DataFrame({"size": generator.standard_normal(200), "colour": colours})
    table = ColumnTransformer(
        [("number", StandardScaler(), ["size"]), ("word", OneHotEncoder(handle_unknown="ignore"), ["colour"])]
    )
    made = make_pipeline(table, LogisticRegression()).fit(frame, (frame["size"] > 0) & (colours != "red"))
    skops.io.dump(made, cases.folder("columns") / "model.skops")
    cases.bring(
        "columns",
        signature(
            tensor("size", "batch", 1),
            tensor("colour", "batch", 1, dtype=Dtype.BYTES),
            tensor("p", "batch", 1),
        ),
    )


def main(home: Path) -> None:
    for models in (lightgbm_models, xgboost_models, sklearn_models):
        models(home).write()


if __name__ == "__main__":
    main(Path(sys.argv[1]))
