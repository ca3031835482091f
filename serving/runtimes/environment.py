"""Is this Python environment fit to run engines? Asked at start-up, without loading what is asked about."""

import importlib.util
import mmap
import re
from importlib import metadata
from pathlib import Path

from serving.runtimes.errors import ConflictingRuntimes, IncompatibleTensorRt

_PROVIDE_ONNXRUNTIME = (
    "onnxruntime",
    "onnxruntime-gpu",
    "onnxruntime-openvino",
    "onnxruntime-directml",
    "onnxruntime-rocm",
    "onnxruntime-qnn",
)
_LINKED = re.compile(rb"libnvinfer\.so\.([0-9]+)")


def check_environment() -> None:
    """Raises ConflictingRuntimes when two distributions provide one module.

    The files of the one installed last overwrite the other's, and a CUDA machine may then serve on its
    CPU without a word.
    """
    found = tuple(name for name in _PROVIDE_ONNXRUNTIME if _installed(name))
    if len(found) > 1:
        raise ConflictingRuntimes("onnxruntime", found)


def check_tensorrt(provider: Path | None = None) -> None:
    """Raises IncompatibleTensorRt unless the installed TensorRT is of the major release that ONNX Runtime's
    provider (its library, by default the installed one) is linked against; a wrong one is loaded without a
    word, and ends the process later."""
    wanted = linked_tensorrt(provider or _provider_library())
    found = _version("tensorrt")
    if not wanted or found.partition(".")[0] != wanted:
        raise IncompatibleTensorRt(f"{wanted}.*" if wanted else "of its own release", found)


def linked_tensorrt(library: Path | None) -> str:
    """Major release of TensorRT that a library names; empty where there is no library, or it names none."""
    if library is None or not library.is_file() or not library.stat().st_size:
        return ""
    with library.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as content:
        found = _LINKED.search(content)
        return found[1].decode() if found else ""


def _provider_library() -> Path | None:
    found = importlib.util.find_spec("onnxruntime")
    if found is None or found.origin is None:
        return None
    return Path(found.origin).parent / "capi" / "libonnxruntime_providers_tensorrt.so"


def _version(name: str) -> str:
    """Empty where it is not installed."""
    try:
        return metadata.version(name)
    except metadata.PackageNotFoundError:
        return ""


def _installed(name: str) -> bool:
    try:
        metadata.distribution(name)
    except metadata.PackageNotFoundError:
        return False
    return True
