"""What a version's files are and what it takes to import them, by their names alone. Pure."""

import posixpath
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import assert_never

from builder.steps.step import Refused
from registry.contract.versions import Framework, SourceOptions

SAVED_MODEL = "saved_model.pb"
TORCH_EXPORT = (".pt2",)
TORCH_WEIGHTS = (".pt", ".pth", ".bin", ".safetensors")
TORCHSCRIPT = (".pt", ".pth", ".ts", ".jit", ".torchscript")
LIGHTGBM = (".txt", ".lgb", ".lightgbm", ".model")
XGBOOST = (".json", ".ubj")
SKOPS = (".skops",)
PICKLES = (".pkl", ".pickle", ".joblib")


class Format(StrEnum):
    ONNX = "onnx"
    TORCH_EXPORT = "torch-export"
    TORCHSCRIPT = "torchscript"
    TORCH_SOURCE = "torch-source"
    SAVED_MODEL = "saved-model"
    LIGHTGBM_TEXT = "lightgbm-text"
    XGBOOST_JSON = "xgboost-json"
    SKLEARN_SKOPS = "sklearn-skops"
    SKLEARN_PICKLE = "sklearn-pickle"


# Loading one runs whatever code its author put there.
EXECUTES_CODE = frozenset({Format.TORCH_SOURCE, Format.SKLEARN_PICKLE})


@dataclass(frozen=True, slots=True)
class Plan:
    """`main`: the file (for a SavedModel its folder) that is the model. `environment`: the worker environment
    that imports it; None: the worker's own."""

    format: Format
    main: str
    environment: str | None

    @property
    def executes_code(self) -> bool:
        return self.format in EXECUTES_CODE


def plan(framework: Framework, files: Sequence[str], source: SourceOptions) -> Plan:
    """Raises Refused when the files are none that this framework's frontend reads."""
    match framework:
        case Framework.ONNX:
            from builder.frontends.onnx import choose_model

            return Plan(Format.ONNX, source.file or choose_model(tuple(files)), None)
        case Framework.PYTORCH:
            return _pytorch(files, source)
        case Framework.TENSORFLOW:
            return Plan(Format.SAVED_MODEL, _saved_model(files, source), "tensorflow")
        case Framework.LIGHTGBM:
            main = _one("LightGBM", files, source, LIGHTGBM, "booster.save_model('model.txt')")
            return Plan(Format.LIGHTGBM_TEXT, main, "trees")
        case Framework.XGBOOST:
            main = _one("XGBoost", files, source, XGBOOST, "booster.save_model('model.ubj')")
            return Plan(Format.XGBOOST_JSON, main, "trees")
        case Framework.SKLEARN:
            return _sklearn(files, source)
        case Framework.PYFUNC:
            raise Refused(
                "a Python function has no graph to build engines from; register the model that it wraps in "
                "its own framework's format"
            )
        case _:
            assert_never(framework)


def _pytorch(files: Sequence[str], source: SourceOptions) -> Plan:
    if source.entry is not None:
        main = _one("PyTorch", files, source, TORCH_WEIGHTS, "torch.save(module.state_dict(), 'model.pt')")
        return Plan(Format.TORCH_SOURCE, main, "torch")
    if any(file.endswith(".py") for file in files):
        raise Refused(
            "the version holds Python source, and its contract doesn't say what makes the module; name it "
            "(source.entry, for example 'net:build'), or leave the source out"
        )
    exported = _ending(files, TORCH_EXPORT)
    if source.file is None and exported:
        return Plan(Format.TORCH_EXPORT, _one("PyTorch", files, source, TORCH_EXPORT, ""), "torch")
    main = _one(
        "PyTorch",
        files,
        source,
        (*TORCH_EXPORT, *TORCHSCRIPT),
        "torch.export.save(program, 'model.pt2'), or script.save('model.pt')",
    )
    is_export = main.endswith(TORCH_EXPORT)
    return Plan(Format.TORCH_EXPORT if is_export else Format.TORCHSCRIPT, main, "torch")


def _sklearn(files: Sequence[str], source: SourceOptions) -> Plan:
    chosen = _ending([source.file] if source.file else files, SKOPS)
    if chosen:
        return Plan(Format.SKLEARN_SKOPS, _one("scikit-learn", files, source, SKOPS, ""), "trees")
    main = _one("scikit-learn", files, source, (*SKOPS, *PICKLES), "skops.io.dump(model, 'model.skops')")
    return Plan(Format.SKLEARN_PICKLE, main, "trees")


def _saved_model(files: Sequence[str], source: SourceOptions) -> str:
    """Its folder."""
    found = [file for file in files if posixpath.basename(file) == SAVED_MODEL]
    if source.file is not None:
        wanted = source.file.removesuffix(SAVED_MODEL).rstrip("/")
        found = [file for file in found if posixpath.dirname(file) == wanted]
    if len(found) != 1:
        raise Refused(
            f"the version has {len(found)} files {SAVED_MODEL} (its files: {_listed(files)}); register the "
            "whole folder of one SavedModel: model.export('folder') in Keras, tf.saved_model.save elsewhere"
        )
    return posixpath.dirname(found[0])


def _one(
    name: str, files: Sequence[str], source: SourceOptions, endings: tuple[str, ...], saving: str
) -> str:
    """The one file that is the model: the named one, `model.*`, or the only one."""
    if source.file is not None:
        if source.file not in files or not source.file.endswith(endings):
            raise Refused(
                f"the contract names {source.file!r} as the model (source.file), which is no file of the "
                f"version that ends in {' or '.join(endings)}; its files: {_listed(files)}"
            )
        return source.file
    found = _ending(files, endings)
    stem: Callable[[str], bool] = lambda file: posixpath.basename(file).rpartition(".")[0] == "model"  # noqa: E731
    named = [file for file in found if stem(file)]
    for chosen in (named, found):
        if len(chosen) == 1:
            return chosen[0]
    if found:
        raise Refused(
            f"the version has {len(found)} files that may be the {name} model ({_listed(found)}); name the "
            "one in its contract (source.file)"
        )
    raise Refused(
        f"the version has no {name} model that this worker reads: none of its files ({_listed(files)}) ends "
        f"in {' or '.join(endings)}; save it with {saving} and register that file"
    )


def _ending(files: Sequence[str], endings: tuple[str, ...]) -> list[str]:
    return [file for file in files if file.endswith(endings)]


def _listed(files: Sequence[str]) -> str:
    return ", ".join(files)
