"""SavedModels: read as functions of a graph, with the contract's axes and names."""

import pytest

from tests.builder.frontends.inside.cases import Case

# The first one here may have to make an environment.
pytestmark = pytest.mark.timeout(1200)


def test_a_real_saved_model_equals_its_authors_own_onnx_file(tensorflow_cases: dict[str, Case]) -> None:
    """basic-pitch was saved by Keras 2, with an optimizer that only tf_keras can read."""
    case = tensorflow_cases["pitch"]
    assert case.ending == "done", case.told
    assert case.facts["worst"] < 1e-4
    assert case.result["exporter"].startswith("tf2onnx 1.17.0")


def test_a_keras_lstm_keeps_batch_and_length_open_and_masks_its_padding(
    tensorflow_cases: dict[str, Case],
) -> None:
    case = tensorflow_cases["text"]
    assert case.ending == "done", case.told
    assert "5×5" in case.told
    assert case.result["deviation"] < 1e-5
    assert case.facts["padding"] < 1e-5


def test_an_operator_that_onnx_lacks_is_named(tensorflow_cases: dict[str, Case]) -> None:
    case = tensorflow_cases["odd"]
    assert case.ending == "refused"
    assert "BesselI0e" in case.told


def test_a_function_with_frozen_rows_is_refused_with_the_remedy(tensorflow_cases: dict[str, Case]) -> None:
    case = tensorflow_cases["frozen"]
    assert case.ending == "refused"
    assert "fails on 2 rows" in case.told
    assert "save it again with an example batch of 2" in case.told


def test_a_signature_that_is_not_there_is_told_with_those_that_are(
    tensorflow_cases: dict[str, Case],
) -> None:
    case = tensorflow_cases["unnamed"]
    assert case.ending == "refused"
    assert "'serving_default'" in case.told
    assert "odd, frozen" in case.told or "frozen, odd" in case.told


def test_outputs_of_other_names_are_told_with_the_models_own(tensorflow_cases: dict[str, Case]) -> None:
    case = tensorflow_cases["others"]
    assert case.ending == "refused"
    assert "outputs z, w" in case.told
    assert "y (1, 4)" in case.told
