"""Is this Python environment fit to run engines? Asked once, at start-up."""

from importlib import metadata

from serving.runtimes.errors import ConflictingRuntimes

_PROVIDE_ONNXRUNTIME = (
    "onnxruntime",
    "onnxruntime-gpu",
    "onnxruntime-openvino",
    "onnxruntime-directml",
    "onnxruntime-rocm",
    "onnxruntime-qnn",
)


def check_environment() -> None:
    """Raises ConflictingRuntimes when two distributions provide one module.

    The files of the one installed last overwrite the other's, and a CUDA machine may then serve on its
    CPU without a word.
    """
    found = tuple(name for name in _PROVIDE_ONNXRUNTIME if _installed(name))
    if len(found) > 1:
        raise ConflictingRuntimes("onnxruntime", found)


def _installed(name: str) -> bool:
    try:
        metadata.distribution(name)
    except metadata.PackageNotFoundError:
        return False
    return True
