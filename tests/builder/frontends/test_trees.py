"""LightGBM, XGBoost and scikit-learn against themselves, and near their thresholds."""

from pathlib import Path

import pytest

from tests.builder.frontends.inside.cases import Case, read_cases

# The first one here may have to make an environment.
pytestmark = pytest.mark.timeout(1200)


@pytest.fixture(scope="module")
def lightgbm_cases(trees_home: Path) -> dict[str, Case]:
    return read_cases(trees_home / "lightgbm")


@pytest.fixture(scope="module")
def xgboost_cases(trees_home: Path) -> dict[str, Case]:
    return read_cases(trees_home / "xgboost")


@pytest.fixture(scope="module")
def sklearn_cases(trees_home: Path) -> dict[str, Case]:
    return read_cases(trees_home / "sklearn")


def test_all_labels_of_the_digits_are_equal(lightgbm_cases: dict[str, Case]) -> None:
    case = lightgbm_cases["again"]
    assert case.ending == "done", case.told
    assert case.facts["equal labels"] == case.facts["rows"] == 1797
    assert case.result["warnings"] == []


def test_the_same_model_gives_the_same_bytes(trees_home: Path) -> None:
    first, second = (trees_home / "lightgbm" / name / "model.onnx" for name in ("classifier", "again"))
    assert first.read_bytes() == second.read_bytes()


@pytest.mark.parametrize("objective", ["regression", "poisson", "cross_entropy"])
def test_a_regressor_keeps_its_objectives_scale(lightgbm_cases: dict[str, Case], objective: str) -> None:
    case = lightgbm_cases[objective]
    assert case.ending == "done", case.told
    assert case.result["deviation"] < 1e-5


def test_features_far_from_zero_are_refused_with_both_remedies(lightgbm_cases: dict[str, Case]) -> None:
    case = lightgbm_cases["far"]
    assert case.ending == "refused"
    assert "beside a threshold are decided otherwise" in case.told
    assert "features Column_0;" in case.told
    assert "FP64 (the double path)" in case.told
    assert "scaled features" in case.told


def test_the_double_path_has_no_flips(lightgbm_cases: dict[str, Case]) -> None:
    case = lightgbm_cases["far-double"]
    assert case.ending == "done", case.told
    assert case.result["warnings"] == []
    assert case.result["deviation"] < 1e-12


def test_accepted_flips_stay_a_warning(lightgbm_cases: dict[str, Case]) -> None:
    case = lightgbm_cases["far-accepted"]
    assert case.ending == "done", case.told
    assert any("decided otherwise" in warning for warning in case.result["warnings"])


def test_categories_and_missing_values_go_the_same_way(lightgbm_cases: dict[str, Case]) -> None:
    case = lightgbm_cases["categories"]
    assert case.ending == "done", case.told
    assert case.facts["odd"] < 1e-5


@pytest.mark.parametrize(
    ("name", "told"),
    [("damaged", "is no LightGBM text model"), ("narrow", "the model takes 64 features")],
)
def test_what_does_not_fit_is_told(lightgbm_cases: dict[str, Case], name: str, told: str) -> None:
    assert lightgbm_cases[name].ending == "refused"
    assert told in lightgbm_cases[name].told


@pytest.mark.parametrize("name", ["classifier", "regressor", "far"])
def test_xgboost_answers_what_it_answers_itself(xgboost_cases: dict[str, Case], name: str) -> None:
    """It works in FP32 itself, so that features far from zero lose nothing more."""
    case = xgboost_cases[name]
    assert case.ending == "done", case.told
    assert case.result["deviation"] < 1e-4
    assert case.result["opset"] >= 15
    assert case.result["warnings"] == []


@pytest.mark.parametrize("name", ["pipeline", "boosted", "columns"])
def test_pipelines_come_whole(sklearn_cases: dict[str, Case], name: str) -> None:
    case = sklearn_cases[name]
    assert case.ending == "done", case.told
    assert "→" in case.told


@pytest.mark.parametrize(
    ("name", "told"),
    [
        ("pickled", "may execute code when it is loaded"),
        ("odd", "FunctionTransformer"),
        ("foreign", "doesn't trust: numpy"),
    ],
)
def test_what_is_not_taken_is_told(sklearn_cases: dict[str, Case], name: str, told: str) -> None:
    assert sklearn_cases[name].ending == "refused"
    assert told in sklearn_cases[name].told
