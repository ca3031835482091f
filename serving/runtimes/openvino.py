"""OpenVINO on the CPU. An engine is a bundle of its intermediate representation and its weights.

Of the package the runtime alone is used: the converter of its tools would tell a server outside what it does.
"""

import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from registry.contract.versions import Dtype, Signature, TensorSpec
from serving.runtimes.bundle import unpack
from serving.runtimes.errors import EngineClosed, InputError, NotAModel, RunFailed, RuntimeMissing
from serving.runtimes.memory import Growth, give_back_free_memory
from serving.runtimes.protocol import (
    Array,
    Device,
    LoadOptions,
    LoadTimes,
    MemoryUse,
    Progress,
    Tensors,
    ignore_progress,
)
from serving.runtimes.tensors import check_tensors

MODEL, WEIGHTS = "model.xml", "model.bin"
WANTED = "an OpenVINO engine"

# Without text: tensors of it end the process when they are freed (seen with 2026.4.1).
_DTYPES = {
    "boolean": Dtype.BOOL,
    "u8": Dtype.UINT8,
    "i8": Dtype.INT8,
    "i16": Dtype.INT16,
    "i32": Dtype.INT32,
    "i64": Dtype.INT64,
    "f16": Dtype.FP16,
    "f32": Dtype.FP32,
    "f64": Dtype.FP64,
}


def import_openvino() -> Any:
    """The module. Raises RuntimeMissing."""
    try:
        import openvino
    except ImportError as error:
        raise RuntimeMissing(
            "openvino",
            "install slipway's extra `openvino` beside the node, for a worker run `./run worker openvino`, "
            "or build for ort.cpu",
        ) from error
    return openvino


class OpenVino:
    name = "openvino"

    def load(
        self, path: Path, device: Device, options: LoadOptions, progress: Progress | None = None
    ) -> "OpenVinoEngine":
        """Of the options the threads count: a stored graph is optimised for this machine at every load."""
        openvino = import_openvino()
        tell = progress or ignore_progress
        growth = Growth()
        tell("read")
        started = time.perf_counter()
        signature, (model, weights) = unpack(path, WANTED, (MODEL, WEIGHTS))
        read = time.perf_counter()
        tell("deserialise")
        core = openvino.Core()
        try:
            # Without weights none may be given: an empty blob is freed twice.
            network = core.read_model(model, weights) if weights else core.read_model(model)
            compiled = core.compile_model(network, "CPU", _configuration(options))
        except RuntimeError as error:
            raise NotAModel(str(path), WANTED, _last(error)) from error
        _check_same(path, signature, compiled)
        times = LoadTimes(read - started, time.perf_counter() - read)
        return OpenVinoEngine(signature, openvino, compiled, times, growth)


class OpenVinoEngine:
    """A compiled model with its one request."""

    def __init__(
        self, signature: Signature, openvino: Any, compiled: Any, times: LoadTimes, growth: Growth
    ) -> None:
        self.signature = signature
        self.load_times = times
        self.provider_that_ran = ",".join(compiled.get_property("EXECUTION_DEVICES"))
        self._tensor = openvino.Tensor
        self._compiled = compiled
        self._request = compiled.create_infer_request()
        self._growth = growth
        self.memory()

    def infer(self, inputs: Tensors) -> dict[str, Array]:
        if self._request is None:
            raise EngineClosed()
        check_tensors(self.signature.inputs, inputs)
        sizes = sizes_of(self.signature.inputs, inputs)
        for spec in self.signature.inputs:
            self._request.set_tensor(spec.name, self._tensor(np.ascontiguousarray(inputs[spec.name])))
        try:
            self._request.infer()
        except RuntimeError as error:
            raise RunFailed(_last(error)) from error
        for spec in self.signature.outputs:
            _refuse_lost(spec, tuple(self._request.get_tensor(spec.name).shape), sizes)
        # Copies: the request writes its next answer over this one.
        return {
            spec.name: np.array(self._request.get_tensor(spec.name).data) for spec in self.signature.outputs
        }

    def memory(self) -> MemoryUse:
        return MemoryUse(self._growth.most(measure=self._request is not None))

    def close(self) -> None:
        if self._request is not None:
            self._request = self._compiled = None
            give_back_free_memory()


def sizes_of(specs: Sequence[TensorSpec], tensors: Tensors) -> dict[str, int]:
    """Size of each named axis. Raises InputError when two inputs disagree about one.

    Others leave that to the run. OpenVINO on one thread loses the error of a run whose shapes don't fit,
    answers nothing, and may end the process later (seen with 2026.4.1).
    """
    found: dict[str, int] = {}
    for spec in specs:
        for name, size in zip(spec.shape, tensors[spec.name].shape, strict=True):
            if isinstance(name, str) and found.setdefault(name, size) != size:
                raise InputError(
                    f"axis {name!r} of input {spec.name!r}",
                    wanted=f"{found[name]}, as another input has it",
                    got=str(size),
                    mend="make all inputs of one size there",
                )
    return found


def _refuse_lost(spec: TensorSpec, shape: tuple[int, ...], sizes: Mapping[str, int]) -> None:
    """An axis of no size that can't be empty is all that a lost error leaves."""
    for axis, size in zip(spec.shape, shape, strict=True):
        if size == 0 and (sizes.get(axis, 0) if isinstance(axis, str) else axis):
            raise RunFailed(
                f"output {spec.name!r} came out empty, of shape {list(shape)}: its error was lost"
            )


def _configuration(options: LoadOptions) -> dict[str, Any]:
    """One stream of `threads` cores. Precision is a matter of the file: without the hint a CPU with BF16
    would calculate FP32 models in it."""
    return {
        "INFERENCE_NUM_THREADS": options.threads,
        "NUM_STREAMS": 1,
        "PERFORMANCE_HINT": "LATENCY",
        "INFERENCE_PRECISION_HINT": "f32",
        "ENABLE_CPU_PINNING": False,
    }


def _check_same(path: Path, signature: Signature, compiled: Any) -> None:
    """The bundle's signature tells the truth about the model in it."""
    for specs, ports in ((signature.inputs, compiled.inputs), (signature.outputs, compiled.outputs)):
        found = {name: port for port in ports for name in port.get_names()}
        for spec in specs:
            port = found.get(spec.name)
            dtype = None if port is None else _DTYPES.get(port.get_element_type().get_type_name())
            if port is None or dtype is not spec.dtype or len(specs) != len(ports):
                raise NotAModel(
                    str(path), WANTED, f"its signature names {spec.name!r}, and the model has no such tensor"
                )


def _last(error: Exception) -> str:
    """Where it was thrown comes first, what is wrong last."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    told = [line for line in lines if not line.startswith("Exception from")]
    return " ".join(told)[:500] or type(error).__name__
