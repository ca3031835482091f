"""What a version's files are taken for, by their names."""

import pytest

from builder.frontends.plan import Format, plan
from builder.steps.step import Refused
from registry.contract.versions import Framework, SourceOptions

PLAIN = SourceOptions()


@pytest.mark.parametrize(
    ("framework", "files", "source", "format", "main"),
    [
        (Framework.ONNX, ("a/net.onnx",), PLAIN, Format.ONNX, "a/net.onnx"),
        (Framework.PYTORCH, ("net.pt2", "notes.md"), PLAIN, Format.TORCH_EXPORT, "net.pt2"),
        (
            Framework.PYTORCH,
            ("net.pt2", "model.pt"),
            SourceOptions(file="model.pt"),
            Format.TORCHSCRIPT,
            "model.pt",
        ),
        (Framework.PYTORCH, ("net.jit",), PLAIN, Format.TORCHSCRIPT, "net.jit"),
        (
            Framework.PYTORCH,
            ("net.py", "w.safetensors"),
            SourceOptions(entry="net:build"),
            Format.TORCH_SOURCE,
            "w.safetensors",
        ),
        (Framework.TENSORFLOW, ("m/saved_model.pb", "m/variables/v.index"), PLAIN, Format.SAVED_MODEL, "m"),
        (Framework.TENSORFLOW, ("saved_model.pb",), PLAIN, Format.SAVED_MODEL, ""),
        (Framework.LIGHTGBM, ("model.txt", "vocab.txt"), PLAIN, Format.LIGHTGBM_TEXT, "model.txt"),
        (Framework.XGBOOST, ("trees.ubj",), PLAIN, Format.XGBOOST_JSON, "trees.ubj"),
        (Framework.SKLEARN, ("model.skops", "model.pkl"), PLAIN, Format.SKLEARN_SKOPS, "model.skops"),
        (Framework.SKLEARN, ("model.joblib",), PLAIN, Format.SKLEARN_PICKLE, "model.joblib"),
    ],
)
def test_the_model_is_found(
    framework: Framework, files: tuple[str, ...], source: SourceOptions, format: Format, main: str
) -> None:
    found = plan(framework, files, source)
    assert (found.format, found.main) == (format, main)
    assert found.executes_code is (format in (Format.TORCH_SOURCE, Format.SKLEARN_PICKLE))
    assert (found.environment is None) is (format is Format.ONNX)


@pytest.mark.parametrize(
    ("framework", "files", "source", "told"),
    [
        (Framework.PYTORCH, ("net.py", "model.pt"), PLAIN, "source.entry"),
        (Framework.PYTORCH, ("weights.ckpt",), PLAIN, r"torch\.export\.save"),
        (Framework.PYTORCH, ("a.pt", "b.pt"), PLAIN, r"2 files that may be .* \(source\.file\)"),
        (Framework.LIGHTGBM, ("model.pkl",), PLAIN, "save_model"),
        (Framework.XGBOOST, ("a.json",), SourceOptions(file="b.json"), "no file of the version"),
        (Framework.TENSORFLOW, ("model.keras",), PLAIN, "model.export"),
        (Framework.TENSORFLOW, ("a/saved_model.pb", "b/saved_model.pb"), PLAIN, "2 files"),
        (Framework.SKLEARN, ("model.txt",), PLAIN, r"skops\.io\.dump"),
        (Framework.PYFUNC, ("python_model.pkl",), PLAIN, "no graph"),
    ],
)
def test_what_is_no_model_is_told_with_how_to_save_one(
    framework: Framework, files: tuple[str, ...], source: SourceOptions, told: str
) -> None:
    with pytest.raises(Refused, match=told):
        plan(framework, files, source)


def test_a_folder_is_named_among_several_saved_models() -> None:
    files = ("a/saved_model.pb", "b/saved_model.pb")
    assert plan(Framework.TENSORFLOW, files, SourceOptions(file="b")).main == "b"
