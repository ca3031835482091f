"""What a result depends on besides its inputs: versions of the tools, and the machine."""

import os
import platform
from functools import cache
from importlib import metadata
from pathlib import Path

from builder.environments.environment import find

TOOLS = ("numpy", "onnx", "onnxruntime", "onnxruntime-gpu", "onnxslim", "openvino", "polygraphy", "tensorrt")
# CPU extensions that choose other kernels, and so other last bits and other speeds.
EXTENSIONS = ("avx2", "avx512f", "avx512_vnni", "avx_vnni", "amx_int8", "amx_bf16", "asimddp", "i8mm", "sve")


def tools(environment: str | None = None) -> dict[str, str]:
    """Name → version of what is installed; a worker environment's packages go before the worker's own.

    Raises UnknownEnvironment.
    """
    made = find(environment) if environment else None
    return {**_own_tools(), **(made.versions if made else {})}


@cache
def _own_tools() -> dict[str, str]:
    found = {"python": platform.python_version()}
    for name in TOOLS:
        try:
            found[name] = metadata.version(name)
        except metadata.PackageNotFoundError:
            continue
    return found


@cache
def machine() -> dict[str, str]:
    """What engines' answers may depend on."""
    flags = _cpuinfo("flags") or _cpuinfo("Features")
    present = [name for name in EXTENSIONS if name in flags.split()]
    return {"machine": platform.machine(), "extensions": " ".join(present)}


@cache
def performance() -> dict[str, str]:
    """What measured times depend on, on top of `machine`."""
    return {"cpu": _cpuinfo("model name"), "cores": str(len(os.sched_getaffinity(0)))}


def _cpuinfo(field: str) -> str:
    """Of the first core; empty where the kernel doesn't tell."""
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return ""
    for line in lines:
        name, _, value = line.partition(":")
        if name.strip() == field:
            return value.strip()
    return ""
