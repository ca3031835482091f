"""The targets that this machine can run, best first: what a node tells the registry."""

import importlib.util
from importlib import metadata
from pathlib import Path

from serving.runtimes import cuda
from serving.runtimes.environment import check_tensorrt
from serving.runtimes.errors import IncompatibleTensorRt

_CPU_FLAGS = {"avx512_vnni": "ort.cpu.avx512_vnni"}
# Loading their engines may run code that came with a model.
CODE_TARGETS = ("torch.cpu", "torchscript.cpu")


def local_targets(cpuinfo: Path = Path("/proc/cpuinfo"), *, allow_code: bool = False) -> tuple[str, ...]:
    """What runs on a card, then what runs on this CPU, of the packages that are installed. `ort.cpu` runs on
    every machine; behind it, where the machine's operator allows it, come the targets that may execute code.
    """
    flags = _flags(cpuinfo)
    return (
        *_card_targets(),
        *(("openvino.cpu",) if has_package("openvino") else ()),
        *(target for flag, target in _CPU_FLAGS.items() if flag in flags),
        "ort.cpu",
        *(CODE_TARGETS if allow_code and has_package("torch") else ()),
    )


def has_package(name: str) -> bool:
    """Whether a module can be imported, without importing it."""
    return importlib.util.find_spec(name) is not None


def _card_targets() -> tuple[str, ...]:
    """For the first card: a node serves on one."""
    for capability in cuda.capabilities()[:1]:
        kinds = [kind for kind in ("tensorrt", "tensorrt_rtx") if has_package(kind)]
        if _has_gpu_wheel():
            kinds += ["ort.tensorrt"] if _tensorrt_fits() else []
            kinds.append("ort.cuda")
        return tuple(f"{kind}.{capability}" for kind in kinds)
    return ()


def _has_gpu_wheel() -> bool:
    try:
        metadata.distribution("onnxruntime-gpu")
    except metadata.PackageNotFoundError:
        return False
    return True


def _tensorrt_fits() -> bool:
    try:
        check_tensorrt()
    except IncompatibleTensorRt:
        return False
    return True


def _flags(cpuinfo: Path) -> frozenset[str]:
    """Of the first core; empty where the kernel doesn't tell."""
    try:
        text = cpuinfo.read_text()
    except OSError:
        return frozenset()
    for line in text.splitlines():
        name, _, value = line.partition(":")
        if name.strip() in ("flags", "Features"):
            return frozenset(value.split())
    return frozenset()
