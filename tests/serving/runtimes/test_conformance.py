"""What every runtime must do. A new runtime joins by a line in `_cases`.

Only the runtimes of this very environment are tried. `test_elsewhere` runs this file in the others.
"""

import gc
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

import numpy as np
import pytest

from builder.data.samples import write_samples
from builder.steps import compile_openvino
from builder.steps.engines import opened
from builder.steps.sample import made_up
from builder.steps.step import perform
from registry.contract.versions import Dtype, TensorSpec
from serving.runtimes import walled
from serving.runtimes.catalogue import runtime_for
from serving.runtimes.errors import EngineClosed, InputError, NotAModel, RunFailed
from serving.runtimes.loading import open_engine
from serving.runtimes.memory import give_back_free_memory, resident_bytes
from serving.runtimes.protocol import LoadedEngine, LoadOptions
from serving.runtimes.targets import has_package
from tests.serving import tiny_models


class Models(Protocol):
    """As `tiny_models` has them."""

    def classifier(self, path: Path, features: int = 4, classes: int = 3) -> Path: ...

    def adder(self, path: Path, amount: float = 1.0) -> Path: ...

    def echo(self, path: Path, element: int) -> Path: ...

    def failing_on_value(self, path: Path, rows: int = 8) -> Path: ...

    def heavy(self, path: Path, megabytes: int = 64) -> Path: ...


@dataclass(frozen=True)
class Case:
    """`build` turns a file of `models` into what the target loads. `waiting`: threads that a runtime adds
    once for the whole process, which wait while others work. `text`: whether it carries texts. `bounds`:
    whether it fails on an index outside a table, which others answer with zero."""

    target: str
    provider: str
    models: Models
    build: Callable[[Path], Path] = lambda file: file
    waiting: int = 0
    text: bool = True
    bounds: bool = True


def _openvino(file: Path) -> Path:
    sample = file.with_suffix(".npz")
    with opened(file, "ort.cpu") as engine:
        write_samples(sample, made_up(engine.signature, 1))
    parameters = compile_openvino.CompileOpenVinoParameters(target="openvino.cpu")
    perform(compile_openvino.STEP, parameters, {"model": file, "sample": sample}, file.parent / "openvino")
    return file.parent / "openvino" / compile_openvino.ENGINE


def _cases() -> Iterator[Case]:
    onnx: Models = tiny_models
    yield Case("ort.cpu", "CPUExecutionProvider", onnx)
    if has_package("openvino"):
        yield Case("openvino.cpu", "CPU", onnx, _openvino, waiting=4, text=False, bounds=False)
    if walled.inside() and has_package("torch"):
        from tests.serving.torch_models import TorchModels

        yield Case("torch.cpu", "CPU", TorchModels("torch"), waiting=4, text=False)
        yield Case("torchscript.cpu", "CPU", TorchModels("torchscript"), waiting=4, text=False)


CASES = list(_cases())


@pytest.fixture(params=CASES, ids=lambda case: case.target)
def case(request: pytest.FixtureRequest) -> Case:
    return request.param


def load(case: Case, file: Path, options: LoadOptions = LoadOptions()) -> LoadedEngine:
    runtime, device = runtime_for(case.target)
    return runtime.load(case.build(file), device, options)


def _threads() -> int:
    return len(list(Path("/proc/self/task").iterdir()))


def test_tells_the_signature_and_what_ran(case: Case, tmp_path: Path) -> None:
    engine = load(case, case.models.classifier(tmp_path / "c.onnx", features=5, classes=3))
    assert engine.signature.inputs == (TensorSpec(name="x", dtype=Dtype.FP32, shape=("batch", 5)),)
    assert engine.signature.outputs == (TensorSpec(name="scores", dtype=Dtype.FP32, shape=("batch", 3)),)
    assert engine.provider_that_ran == case.provider
    engine.close()


@pytest.mark.parametrize("shape", [(1, 1), (1, 7), (3, 2), (32, 100)])
def test_infers_several_shapes(case: Case, tmp_path: Path, shape: tuple[int, int]) -> None:
    engine = load(case, case.models.adder(tmp_path / "a.onnx", amount=0.5))
    a = np.random.default_rng(1).standard_normal(shape).astype(np.float32)
    b = np.ones(shape, dtype=np.float32)
    outputs = engine.infer({"b": b, "a": a})
    assert list(outputs) == ["sum"]
    np.testing.assert_allclose(outputs["sum"], a + b + 0.5, rtol=1e-6)
    engine.close()


def test_takes_views_and_read_only_inputs_and_leaves_them_alone(case: Case, tmp_path: Path) -> None:
    engine = load(case, case.models.adder(tmp_path / "a.onnx", amount=1))
    a = np.arange(24, dtype=np.float32).reshape(4, 6)[:, ::2]
    b = np.zeros((4, 3), dtype=np.float32)
    b.flags.writeable = False
    before = a.copy()
    np.testing.assert_array_equal(engine.infer({"a": a, "b": b})["sum"], before + 1)
    np.testing.assert_array_equal(a, before)
    engine.close()


@pytest.mark.parametrize("dtype", [Dtype.FP32, Dtype.FP64, Dtype.INT64, Dtype.INT32, Dtype.UINT8, Dtype.BOOL])
def test_carries_every_dtype(case: Case, tmp_path: Path, dtype: Dtype) -> None:
    elements = {"FP32": 1, "UINT8": 2, "INT32": 6, "INT64": 7, "BOOL": 9, "FP64": 11}
    engine = load(case, case.models.echo(tmp_path / "e.onnx", elements[dtype]))
    x = np.array([[0, 1, 1]]).astype(
        {"FP32": "f4", "FP64": "f8", "INT64": "i8", "INT32": "i4", "UINT8": "u1", "BOOL": "?"}[dtype]
    )
    y = engine.infer({"x": x})["y"]
    assert y.dtype == x.dtype
    np.testing.assert_array_equal(y, x)
    engine.close()


def test_carries_text(case: Case, tmp_path: Path) -> None:
    if not case.text:
        pytest.skip(f"{case.target} has no tensors of text")
    engine = load(case, case.models.echo(tmp_path / "e.onnx", 8))
    x = np.array([[b"plain", "größer".encode()]], dtype=np.object_)
    assert engine.infer({"x": x})["y"].tolist() == [["plain", "größer"]]
    with pytest.raises(InputError, match="UTF-8"):
        engine.infer({"x": np.array([[b"\xff"]], dtype=np.object_)})
    engine.close()


@pytest.mark.parametrize(
    ("inputs", "what", "wanted", "got"),
    [
        ({}, "input names", "x", "none"),
        ({"y": np.zeros((1, 4), np.float32)}, "input names", "x", "y"),
        ({"x": np.zeros((1, 4), np.float64)}, "dtype of input 'x'", "FP32", "FP64"),
        ({"x": np.zeros((1, 4), np.complex64)}, "dtype of input 'x'", "FP32", "complex64"),
        ({"x": np.zeros((1, 5), np.float32)}, "shape of input 'x'", "FP32[batch, 4]", "[1, 5]"),
        ({"x": np.zeros((4,), np.float32)}, "shape of input 'x'", "FP32[batch, 4]", "[4]"),
    ],
)
def test_refuses_wrong_tensors_with_the_facts(
    case: Case, tmp_path: Path, inputs: dict[str, np.ndarray], what: str, wanted: str, got: str
) -> None:
    engine = load(case, case.models.classifier(tmp_path / "c.onnx"))
    with pytest.raises(InputError) as caught:
        engine.infer(inputs)
    assert (caught.value.what, caught.value.wanted, caught.value.got) == (what, wanted, got)
    assert caught.value.mend
    assert engine.infer({"x": np.zeros((1, 4), np.float32)})["scores"].shape == (1, 3)
    engine.close()


def test_inputs_that_do_not_fit_together_fail_the_run_alone(case: Case, tmp_path: Path) -> None:
    engine = load(case, case.models.adder(tmp_path / "a.onnx"))
    x = np.zeros((2, 3), np.float32)
    with pytest.raises((RunFailed, InputError)):
        engine.infer({"a": x, "b": np.zeros((2, 4), np.float32)})
    assert engine.infer({"a": x, "b": x})["sum"].tolist() == [[1.0] * 3] * 2
    engine.close()


def test_answers_are_the_callers_own(case: Case, tmp_path: Path) -> None:
    engine = load(case, case.models.adder(tmp_path / "a.onnx"))
    x = np.zeros((2, 3), np.float32)
    first = engine.infer({"a": x, "b": x})["sum"]
    engine.infer({"a": x + 5, "b": x})
    assert first.tolist() == [[1.0] * 3] * 2
    first[:] = 9
    assert engine.infer({"a": x, "b": x})["sum"].tolist() == [[1.0] * 3] * 2
    engine.close()


def test_a_failed_run_leaves_the_engine_well(case: Case, tmp_path: Path) -> None:
    engine = load(case, case.models.failing_on_value(tmp_path / "f.onnx", rows=4))
    if case.bounds:
        with pytest.raises(RunFailed):
            engine.infer({"index": np.array([[9]])})
    assert engine.infer({"index": np.array([[3]])})["y"].tolist() == [[3.0]]
    engine.close()


@pytest.mark.parametrize("content", [b"", b"not a model", b"\x08\x0a" * 50, b"PK\x03\x04" + bytes(500)])
def test_refuses_a_wrong_file(case: Case, tmp_path: Path, content: bytes) -> None:
    wrong = tmp_path / "wrong.onnx"
    wrong.write_bytes(content)
    runtime, device = runtime_for(case.target)
    with pytest.raises(NotAModel, match=r"wrong\.onnx"):
        runtime.load(wrong, device, LoadOptions())


def test_a_missing_file_is_named(case: Case, tmp_path: Path) -> None:
    runtime, device = runtime_for(case.target)
    with pytest.raises(FileNotFoundError, match=r"none\.onnx"):
        runtime.load(tmp_path / "none.onnx", device, LoadOptions())


@pytest.mark.parametrize("threads", [1, 3])
def test_takes_no_more_threads_than_given(case: Case, tmp_path: Path, threads: int) -> None:
    before = _threads()
    engine = load(case, case.models.adder(tmp_path / "a.onnx"), LoadOptions(threads=threads))
    x = np.ones((64, 4096), dtype=np.float32)
    engine.infer({"a": x, "b": x})
    added = _threads() - before
    assert added <= threads - 1 + case.waiting
    assert case.waiting or added == threads - 1
    engine.close()
    assert case.waiting or _threads() == before


def test_counts_its_memory_and_gives_it_back(case: Case, tmp_path: Path) -> None:
    megabyte = 1 << 20
    load(case, case.models.classifier(tmp_path / "first.onnx")).close()
    path = case.models.heavy(tmp_path / "h.onnx", megabytes=64)
    gc.collect()
    give_back_free_memory()
    before = resident_bytes()
    engine = load(case, path)
    engine.infer({"x": np.ones((1, 1024), np.float32)})
    assert engine.memory().engine > 60 * megabyte
    assert resident_bytes() - before > 60 * megabyte
    engine.close()
    assert resident_bytes() - before < 24 * megabyte


def test_is_of_no_use_once_closed(case: Case, tmp_path: Path) -> None:
    engine = load(case, case.models.classifier(tmp_path / "c.onnx"))
    engine.close()
    engine.close()
    with pytest.raises(EngineClosed):
        engine.infer({"x": np.zeros((1, 4), np.float32)})


def test_times_each_part_of_a_load(case: Case, tmp_path: Path) -> None:
    seen: list[str] = []
    path = case.build(case.models.classifier(tmp_path / "c.onnx"))
    engine, times, warmed = open_engine(path, case.target, warm_rows=8, progress=seen.append)
    assert [part for part in seen if part != "copy"] == ["read", "deserialise", "warm_up"]
    assert times.read_s > 0
    assert times.deserialise_s > 0
    assert times.warm_up_s >= sum(run.first_s + run.again_s for run in warmed.runs)
    assert sum(times.milliseconds().values()) == pytest.approx(times.total_s * 1e3)
    assert [run.rows for run in warmed.runs] == [1, 2, 4, 8]
    engine.close()
