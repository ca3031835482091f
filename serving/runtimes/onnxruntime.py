"""ONNX Runtime, on the CPU or a CUDA card, there with its own kernels or those of TensorRT."""

import time
from pathlib import Path
from typing import Any

from registry.contract.versions import Dtype, Signature, TensorSpec
from serving.runtimes.environment import check_tensorrt
from serving.runtimes.errors import EngineClosed, NotAModel, ProviderUnavailable, RunFailed
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
from serving.runtimes.tensors import check_tensors, decoded

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
_TENSORRT = "TensorrtExecutionProvider"
# What the session says when a node would run on the CPU and may not.
_LEFT_OVER = "fallback to CPU EP has been explicitly disabled"
_LEVELS = {
    "disabled": "ORT_DISABLE_ALL",
    "basic": "ORT_ENABLE_BASIC",
    "extended": "ORT_ENABLE_EXTENDED",
    "all": "ORT_ENABLE_ALL",
}
_QUIET = 4


class OnnxRuntime:
    """`tensorrt`: on a card TensorRT takes all that it can, and CUDA the rest."""

    name = "onnxruntime"

    def __init__(self, *, tensorrt: bool = False) -> None:
        self._tensorrt = tensorrt

    def load(
        self, path: Path, device: Device, options: LoadOptions, progress: Progress | None = None
    ) -> "OnnxEngine":
        import onnxruntime

        tell = progress or ignore_progress
        provider = _TENSORRT if self._tensorrt else _PROVIDERS[device.kind]
        available = tuple(onnxruntime.get_available_providers())
        if provider not in available:
            raise ProviderUnavailable(
                provider, available, "install onnxruntime-gpu in place of onnxruntime, or build for ort.cpu"
            )
        if self._tensorrt:
            check_tensorrt()
        growth = Growth()
        tell("read")
        started = time.perf_counter()
        model = path.read_bytes()
        read = time.perf_counter()
        tell("deserialise")
        try:
            session = onnxruntime.InferenceSession(
                model,
                _session_options(onnxruntime, path, options, device),
                providers=_wanted(provider, device),
            )
        except Exception as error:
            if _LEFT_OVER in str(error):
                raise ProviderUnavailable(
                    provider,
                    (_PROVIDERS["cpu"],),
                    "a part of the model has no kernel on the card; change that part, or build for ort.cpu",
                ) from error
            raise NotAModel(str(path), "an ONNX model", str(error)) from error
        done = time.perf_counter()
        ran = tuple(session.get_providers())
        if ran[0] != provider:
            raise ProviderUnavailable(
                provider, ran, "check the driver and the CUDA libraries with `nvidia-smi` and `ldconfig -p`"
            )
        return OnnxEngine(path, session, ran[0], LoadTimes(read - started, done - read), growth)


class OnnxEngine:
    """An InferenceSession behind the protocol's face."""

    def __init__(self, path: Path, session: Any, provider: str, times: LoadTimes, growth: Growth) -> None:
        self._session = session
        self._growth = growth
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
            feed[name] = decoded(name, feed[name])
        try:
            values = self._session.run(self._outputs, feed)
        except Exception as error:
            raise RunFailed(str(error)) from error
        return dict(zip(self._outputs, values, strict=True))

    def memory(self) -> MemoryUse:
        return MemoryUse(self._growth.most(measure=self._session is not None))

    def close(self) -> None:
        if self._session is not None:
            self._session = None
            give_back_free_memory()


def _wanted(provider: str, device: Device) -> list[tuple[str, dict[str, str]]]:
    """Providers in their order, each with its options."""
    if device.kind == "cpu":
        return [(provider, {})]
    names = dict.fromkeys((provider, _PROVIDERS["cuda"]))
    return [(name, {"device_id": str(device.index)}) for name in names]


def _session_options(onnxruntime: Any, path: Path, options: LoadOptions, device: Device) -> Any:
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
    if device.kind == "cuda":
        # Otherwise the CPU runs what the card can't, and nobody is told.
        made.add_session_config_entry("session.disable_cpu_ep_fallback", "1")
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
