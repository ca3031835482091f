"""What can be asked without a card, a package or walls: clear words, and no end of the process."""

from pathlib import Path

import pytest

from registry.contract.versions import Signature
from serving.runtimes import cuda, walled
from serving.runtimes.bundle import pack
from serving.runtimes.catalogue import runtime_for
from serving.runtimes.errors import NotAllowed, ProviderUnavailable, RuntimeMissing
from serving.runtimes.protocol import LoadOptions
from serving.runtimes.targets import has_package
from serving.runtimes.tensorrt import PLAN
from serving.runtimes.torch import PARTS

NOTHING = Signature(inputs=(), outputs=())


def test_without_a_driver_a_card_is_refused_with_the_remedy() -> None:
    if cuda.capabilities():
        pytest.skip("this machine has a card: that there is none can't be provoked here")
    with pytest.raises(ProviderUnavailable, match=r"CUDA was asked for.*nvidia-smi.*build for ort\.cpu"):
        cuda.Card()
    assert cuda.main() == 0


@pytest.mark.parametrize(
    ("target", "remedy"),
    [("tensorrt.sm_90", "extra `gpu`"), ("tensorrt_rtx.sm_89", r"\./run worker tensorrt-rtx")],
)
def test_without_the_package_the_remedy_is_told(tmp_path: Path, target: str, remedy: str) -> None:
    if has_package("tensorrt") or has_package("tensorrt_rtx_bindings"):
        pytest.skip("this environment has TensorRT: that it is missing can't be provoked here")
    pack(tmp_path / "engine", NOTHING, {PLAN: b"plan"})
    runtime, device = runtime_for(target)
    with pytest.raises(RuntimeMissing, match=remedy):
        runtime.load(tmp_path / "engine", device, LoadOptions())


@pytest.mark.parametrize("kind", ["torch", "torchscript"])
def test_what_may_execute_code_is_not_loaded_outside_of_walls(tmp_path: Path, kind: str) -> None:
    assert not walled.inside()
    pack(tmp_path / "engine", NOTHING, {PARTS["torch" if kind == "torch" else "torchscript"]: b""})
    runtime, device = runtime_for(f"{kind}.cpu")
    with pytest.raises(NotAllowed, match=rf"{kind}\.cpu may run code.*SLIPWAY_ALLOW_CODE"):
        runtime.load(tmp_path / "engine", device, LoadOptions())


def test_a_tensorrt_provider_that_is_not_there_is_no_reason_to_run_on_the_cpu(tmp_path: Path) -> None:
    runtime, device = runtime_for("ort.tensorrt.sm_90")
    with pytest.raises(ProviderUnavailable, match=r"TensorrtExecutionProvider.*CPUExecutionProvider"):
        runtime.load(tmp_path / "engine.onnx", device, LoadOptions())
