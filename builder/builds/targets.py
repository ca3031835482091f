"""What the targets need of a worker: what their engines are made from, and where their steps run."""

from enum import StrEnum

from builder.environments.environment import find, missing
from builder.isolation import sandbox
from builder.isolation.launch import HERE, Place
from builder.steps.step import Refused
from registry.contract.identity import TargetName
from serving.runtimes.targets import has_package, local_targets

ONNX_TARGET = "ort.cpu"
"""What an ONNX file is loaded for where it isn't the engine itself."""


class Family(StrEnum):
    """`ort` runs ONNX files, `openvino` and `tensorrt` what is compiled of one, `torch` PyTorch's own."""

    ORT = "ort"
    OPENVINO = "openvino"
    TENSORRT = "tensorrt"
    TORCH = "torch"


def family_of(target: TargetName) -> Family:
    """Raises Refused for a target that nobody knows."""
    match target.split(".")[0]:
        case "ort":
            return Family.ORT
        case "openvino":
            return Family.OPENVINO
        case "tensorrt" | "tensorrt_rtx":
            return Family.TENSORRT
        case "torch" | "torchscript":
            return Family.TORCH
    raise Refused(
        f"no worker builds for {target}; targets begin with ort, openvino, tensorrt, tensorrt_rtx, torch or "
        "torchscript"
    )


def source_target(target: TargetName) -> TargetName:
    """What the model is loaded for that engines of this target are held against."""
    return ONNX_TARGET if family_of(target) in (Family.OPENVINO, Family.TENSORRT) else target


def place_of_target(target: TargetName, allow_code: bool) -> Place:
    """Where its engines are made and tried. Raises Refused when this worker may not, or can't."""
    match family_of(target):
        case Family.ORT:
            here = [one for one in local_targets() if family_of(one) is Family.ORT]
            if target not in here:
                raise Refused(
                    f"this worker can't build and prove engines for {target}; it has {', '.join(here)}: "
                    "choose one of these targets, or start a worker on a machine that has the other"
                )
            return HERE
        case Family.OPENVINO:
            return HERE if has_package("openvino") else _made("openvino")
        case Family.TENSORRT:
            if target.startswith("tensorrt_rtx."):
                return HERE if has_package("tensorrt_rtx_bindings") else _made("tensorrt-rtx")
            if has_package("tensorrt"):
                return HERE
            raise Refused(
                f"this worker has no TensorRT, which builds for {target}; start one on a machine with such a "
                "card and slipway's extra `gpu`"
            )
        case Family.TORCH:
            return _walled(target, allow_code)


def _walled(target: TargetName, allow_code: bool) -> Place:
    if not allow_code:
        raise Refused(
            f"engines for {target} may execute code when they are loaded, and this worker loads none "
            "(SLIPWAY_ALLOW_CODE is false); build for ort.cpu, or, where the model doesn't convert, let a "
            "worker do it in a sandbox: SLIPWAY_ALLOW_CODE=true"
        )
    refusal = sandbox.refusal()
    if refusal:
        raise Refused(f"engines for {target} may execute code when they are loaded, and {refusal}")
    return Place(_made("torch").environment, walled=True)


def _made(environment: str) -> Place:
    if find(environment) is None:
        raise Refused(missing(environment))
    return Place(environment)
