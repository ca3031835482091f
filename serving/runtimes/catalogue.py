"""Which runtime serves which target, and on what device."""

from serving.runtimes.errors import UnknownTarget
from serving.runtimes.onnxruntime import OnnxRuntime
from serving.runtimes.openvino import OpenVino
from serving.runtimes.protocol import Device, Runtime
from serving.runtimes.tensorrt import TensorRt
from serving.runtimes.torch import TorchRuntime

# The longest prefix wins, so that a special target may have a runtime of its own.
_RUNTIMES: dict[str, tuple[Runtime, Device]] = {
    "ort.cpu": (OnnxRuntime(), Device("cpu")),
    "ort.cuda": (OnnxRuntime(), Device("cuda")),
    "ort.tensorrt": (OnnxRuntime(tensorrt=True), Device("cuda")),
    "openvino.cpu": (OpenVino(), Device("cpu")),
    "torch.cpu": (TorchRuntime("torch"), Device("cpu")),
    "torchscript.cpu": (TorchRuntime("torchscript"), Device("cpu")),
    "tensorrt": (TensorRt("tensorrt"), Device("cuda")),
    "tensorrt_rtx": (TensorRt("tensorrt_rtx"), Device("cuda")),
}


def known_targets() -> tuple[str, ...]:
    """The prefixes of all targets that `runtime_for` takes."""
    return tuple(_RUNTIMES)


def runtime_for(target: str) -> tuple[Runtime, Device]:
    """`ort.cuda.sm_90` → the runtime and its device. Raises UnknownTarget."""
    prefix = target
    while prefix:
        if prefix in _RUNTIMES:
            return _RUNTIMES[prefix]
        prefix = prefix.rpartition(".")[0]
    raise UnknownTarget(target, known_targets())
