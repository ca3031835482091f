"""ONNX Runtime, on the CPU or a CUDA card."""

import time
from pathlib import Path
from typing import Any

import numpy as np

from registry.contract.versions import Dtype, Signature, TensorSpec
from serving.runtimes.errors import EngineClosed, InputError, NotAModel, ProviderUnavailable, RunFailed
from serving.runtimes.memory import give_back_free_memory, resident_bytes
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

_DTYPES = {
    "tensor(bool)": Dtype.BOOL,
    "tensor(uint8)": Dtype.UINT8,
    "tensor(int8)": Dtype.INT8,
    "tensor(int16)": Dtype.INT16,
    "tensor(int32)": Dtype.INT32,
    "tensor(int64)": Dtype.INT64,
    "tensor(float16)": Dtype.FP16,
    "tensor(float)": Dtype.FP32,
    "tensor(double)": Dtype.FP64,
    "tensor(string)": Dtype.BYTES,
}
_PROVIDERS = {"cpu": "CPUExecutionProvider", "cuda": "CUDAExecutionProvider"}
_LEVELS = {
    "disabled": "ORT_DISABLE_ALL",
    "basic": "ORT_ENABLE_BASIC",
    "extended": "ORT_ENABLE_EXTENDED",
    "all": "ORT_ENABLE_ALL",
}
_QUIET = 4


class OnnxRuntime:
    name = "onnxruntime"

    def load(
        self, path: Path, device: Device, options: LoadOptions, progress: Progress | None = None
    ) -> "OnnxEngine":
        import onnxruntime

        tell = progress or ignore_progress
        provider = _PROVIDERS[device.kind]
        available = tuple(onnxruntime.get_available_providers())
        if provider not in available:
            raise ProviderUnavailable(
                provider, available, "install onnxruntime-gpu in place of onnxruntime, or build for ort.cpu"
            )
        before = resident_bytes()
        tell("read")
        started = time.perf_counter()
        model = path.read_bytes()
        read = time.perf_counter()
        tell("deserialise")
        try:
            session = onnxruntime.InferenceSession(
                model,
                _session_options(onnxruntime, path, options),
                providers=[provider],
                provider_options=[{"device_id": str(device.index)} if device.kind == "cuda" else {}],
            )
        except Exception as error:
            raise NotAModel(str(path), "an ONNX model", str(error)) from error
        done = time.perf_counter()
        ran = tuple(session.get_providers())
        if ran[0] != provider:
            raise ProviderUnavailable(
                provider, ran, "check the driver and the CUDA libraries with `nvidia-smi` and `ldconfig -p`"
            )
        return OnnxEngine(path, session, ran[0], LoadTimes(read - started, done - read), before)


class OnnxEngine:
    """An InferenceSession behind the protocol's face."""

    def __init__(self, path: Path, session: Any, provider: str, times: LoadTimes, memory_before: int) -> None:
        self._session = session
        self._before = memory_before
        self._most = 0
        self.provider_that_ran = provider
        self.load_times = times
        self.signature = Signature(
            inputs=tuple(_spec(path, value) for value in session.get_inputs()),
            outputs=tuple(_spec(path, value) for value in session.get_outputs()),
        )
        self._outputs = [spec.name for spec in self.signature.outputs]
        self._strings = tuple(spec.name for spec in self.signature.inputs if spec.dtype is Dtype.BYTES)
        self.memory()

    def infer(self, inputs: Tensors) -> dict[str, Array]:
        if self._session is None:
            raise EngineClosed()
        check_tensors(self.signature.inputs, inputs)
        feed = dict(inputs)
        for name in self._strings:
            feed[name] = _decoded(name, feed[name])
        try:
            values = self._session.run(self._outputs, feed)
        except Exception as error:
            raise RunFailed(str(error)) from error
        return dict(zip(self._outputs, values, strict=True))

    def memory(self) -> MemoryUse:
        if self._session is not None:
            self._most = max(self._most, resident_bytes() - self._before)
        return MemoryUse(self._most)

    def close(self) -> None:
        if self._session is not None:
            self._session = None
            give_back_free_memory()


def _session_options(onnxruntime: Any, path: Path, options: LoadOptions) -> Any:
    """Spinning costs three times the CPU at a low rate; failures are raised, so the log is kept quiet."""
    made = onnxruntime.SessionOptions()
    made.intra_op_num_threads = options.threads
    made.inter_op_num_threads = 1
    made.execution_mode = onnxruntime.ExecutionMode.ORT_SEQUENTIAL
    made.graph_optimization_level = getattr(
        onnxruntime.GraphOptimizationLevel, _LEVELS[options.graph_optimisation]
    )
    made.log_severity_level = _QUIET
    made.add_session_config_entry("session.intra_op.allow_spinning", "0")
    made.add_session_config_entry("session.inter_op.allow_spinning", "0")
    made.add_session_config_entry(
        "session.model_external_initializers_file_folder_path", str(path.resolve().parent)
    )
    return made


def _spec(path: Path, value: Any) -> TensorSpec:
    dtype = _DTYPES.get(value.type)
    if dtype is None:
        raise NotAModel(
            str(path),
            f"a model whose inputs and outputs are tensors of {', '.join(Dtype)}",
            f"{value.name!r} is {value.type}; cast it in the graph",
        )
    shape = tuple(
        size if isinstance(size, int) or size else f"{value.name}.{axis}"
        for axis, size in enumerate(value.shape)
    )
    return TensorSpec(name=value.name, dtype=dtype, shape=shape)


def _decoded(name: str, tensor: Array) -> Array:
    """Strings as the session takes them: `str` elements."""
    try:
        texts = [item.decode() if isinstance(item, bytes) else str(item) for item in tensor.ravel()]
    except UnicodeDecodeError as error:
        raise InputError(
            f"input {name!r}", wanted="text in UTF-8", got=str(error), mend="encode the text in UTF-8"
        ) from error
    found = np.empty(len(texts), dtype=np.object_)
    found[:] = texts
    return found.reshape(tensor.shape)
