"""The models of `tiny_models` as PyTorch engines: same names, same answers. Imports torch, so that its
environment is needed."""

import io
import warnings
from pathlib import Path

import torch

from registry.contract.versions import Dtype, Signature, TensorSpec
from serving.runtimes.bundle import pack
from serving.runtimes.torch import PARTS, Kind

FP32 = Dtype.FP32
ELEMENTS: dict[int, tuple[Dtype, torch.dtype]] = {
    1: (Dtype.FP32, torch.float32),
    2: (Dtype.UINT8, torch.uint8),
    6: (Dtype.INT32, torch.int32),
    7: (Dtype.INT64, torch.int64),
    9: (Dtype.BOOL, torch.bool),
    11: (Dtype.FP64, torch.float64),
}


class _Classifier(torch.nn.Module):
    def __init__(self, features: int, classes: int) -> None:
        super().__init__()
        weights = torch.zeros((features, classes))
        weights[torch.arange(features), torch.arange(features) % classes] = 4.0
        self.weights = torch.nn.Parameter(weights)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.softmax(x @ self.weights, dim=-1)


class _Adder(torch.nn.Module):
    def __init__(self, amount: float) -> None:
        super().__init__()
        self.register_buffer("amount", torch.tensor(amount))

    def forward(self, a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
        return a + b + self.amount


class _Echo(torch.nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x.clone()


class _Table(torch.nn.Module):
    def __init__(self, rows: int) -> None:
        super().__init__()
        self.register_buffer("table", torch.arange(rows, dtype=torch.float32))

    def forward(self, index: torch.Tensor) -> torch.Tensor:
        return self.table[index]


class _Heavy(torch.nn.Module):
    def __init__(self, columns: int) -> None:
        super().__init__()
        weights = torch.ones((1024, columns))
        weights[0] = torch.arange(columns)
        self.weights = torch.nn.Parameter(weights)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x @ self.weights


class TorchModels:
    def __init__(self, kind: Kind) -> None:
        self._kind: Kind = kind

    def classifier(self, path: Path, features: int = 4, classes: int = 3) -> Path:
        x = TensorSpec(name="x", dtype=FP32, shape=("batch", features))
        y = TensorSpec(name="scores", dtype=FP32, shape=("batch", classes))
        return self._made(path, _Classifier(features, classes), (torch.zeros(2, features),), (x,), y)

    def adder(self, path: Path, amount: float = 1.0) -> Path:
        shape = ("batch", "size")
        a, b, total = (TensorSpec(name=name, dtype=FP32, shape=shape) for name in ("a", "b", "sum"))
        return self._made(path, _Adder(amount), (torch.zeros(2, 3), torch.zeros(2, 3)), (a, b), total)

    def echo(self, path: Path, element: int) -> Path:
        dtype, native = ELEMENTS[element]
        x, y = (TensorSpec(name=name, dtype=dtype, shape=("batch", "size")) for name in ("x", "y"))
        return self._made(path, _Echo(), (torch.zeros((2, 3), dtype=native),), (x,), y)

    def failing_on_value(self, path: Path, rows: int = 8) -> Path:
        x = TensorSpec(name="index", dtype=Dtype.INT64, shape=("batch", 1))
        y = TensorSpec(name="y", dtype=FP32, shape=("batch", 1))
        return self._made(path, _Table(rows), (torch.zeros((2, 1), dtype=torch.int64),), (x,), y)

    def heavy(self, path: Path, megabytes: int = 64) -> Path:
        columns = megabytes * 256
        x = TensorSpec(name="x", dtype=FP32, shape=("batch", 1024))
        y = TensorSpec(name="y", dtype=FP32, shape=("batch", columns))
        return self._made(path, _Heavy(columns), (torch.zeros(2, 1024),), (x,), y)

    def _made(
        self,
        path: Path,
        module: torch.nn.Module,
        example: tuple[torch.Tensor, ...],
        inputs: tuple[TensorSpec, ...],
        output: TensorSpec,
    ) -> Path:
        buffer = io.BytesIO()
        if self._kind == "torchscript":
            with warnings.catch_warnings():
                # Deprecated is what it is; models that were saved so are still there.
                warnings.simplefilter("ignore", DeprecationWarning)
                torch.jit.save(torch.jit.script(module.eval()), buffer)
        else:
            auto = torch.export.Dim.AUTO
            dynamic = tuple(
                {axis: auto for axis, size in enumerate(spec.shape) if isinstance(size, str)}
                for spec in inputs
            )
            program = torch.export.export(module.eval(), example, dynamic_shapes=dynamic)
            torch.export.save(program, buffer)
        pack(path, Signature(inputs=inputs, outputs=(output,)), {PARTS[self._kind]: buffer.getvalue()})
        return path
