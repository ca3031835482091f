"""Engines for other runtimes through a real registry and real workers."""

import subprocess
from pathlib import Path

import pytest

from builder.builds.sequence import UNVERIFIED
from builder.builds.targets import Family, family_of, place_of_target, source_target
from builder.steps.step import Refused
from registry.contract.builds import BuildPhase, StepPhase
from registry.contract.engines import GateOutcome
from registry.contract.recipes import Precision, Recipe
from registry.contract.versions import Framework, Version, VersionContract
from serving.runtimes import cuda
from tests import environments
from tests.builder import made
from tests.builder.rig import Rig
from tests.builder.steps.elsewhere import PACKED, write_torch_versions

# The first one here may have to make an environment.
pytestmark = pytest.mark.timeout(1200)


@pytest.fixture(scope="module")
def worker(rig: Rig) -> subprocess.Popen[bytes]:
    environments.worker("openvino")
    rig.work("verify")
    return rig.work("cpu")


@pytest.fixture(scope="module")
def version(rig: Rig, worker: subprocess.Popen[bytes], tmp_path_factory: pytest.TempPathFactory) -> Version:
    model = made.conv_model(tmp_path_factory.mktemp("model") / "model.onnx")
    return rig.register({"model.onnx": model}, made.CONTRACT, "drawn")


def test_openvino_engines_are_proven_beside_the_onnx_file(rig: Rig, version: Version) -> None:
    recipe = Recipe(precisions=(Precision.FP32, Precision.INT8_DYNAMIC), targets=("openvino.cpu",))
    build = rig.ended(rig.build(version, recipe))
    assert build.phase is BuildPhase.COMPLETED, build.reason
    by_precision = {engine.precision: engine for engine in build.engines}
    assert by_precision[Precision.INT8_DYNAMIC].quantised
    engine = by_precision[Precision.FP32]
    assert engine.tools["openvino"] == "2026.4.1"
    assert engine.bench is not None and engine.bench.provider == "CPU"
    gates = {gate.name: gate.outcome for gate in engine.gates}
    assert gates["parity"] is GateOutcome.PASSED
    steps = [step for step in build.steps if step.engine == "fp32/openvino.cpu"]
    assert next(step.name for step in steps if step.phase is StepPhase.DONE) == "compile-openvino"
    assert all("--environment openvino" in step.reproduce for step in steps if step.reproduce)


def test_engines_that_may_execute_code_are_refused_by_default(rig: Rig, version: Version) -> None:
    build = rig.ended(rig.build(version, Recipe(targets=("torchscript.cpu",))))
    assert build.phase is BuildPhase.FAILED
    assert "SLIPWAY_ALLOW_CODE is false" in build.reason


def test_an_engine_that_never_ran_on_a_card_is_unverified_and_cannot_be_released(
    rig: Rig, version: Version
) -> None:
    if cuda.capabilities():
        pytest.skip("this machine has a card: what happens without one can't be provoked here")
    environments.worker("tensorrt-rtx")
    rig.work("gpu.sm_89", "-gpu")
    build = rig.ended(rig.build(version, Recipe(targets=("tensorrt_rtx.sm_89",))))
    assert build.phase is BuildPhase.COMPLETED, build.reason
    (engine,) = build.engines
    assert UNVERIFIED in engine.warnings
    assert not engine.releasable
    (parity,) = [gate for gate in engine.gates if gate.name == "parity"]
    assert parity.outcome is GateOutcome.FAILED
    assert "there is no driver here" in parity.reason


def test_what_does_not_convert_is_built_natively_where_it_is_allowed(
    rig: Rig, worker: subprocess.Popen[bytes], tmp_path: Path
) -> None:
    worker.kill()
    worker.wait(30)
    rig.work("cpu", "-trusting", {"SLIPWAY_ALLOW_CODE": "true"})
    model = write_torch_versions(tmp_path) / "script" / "model.pt"
    contract = VersionContract(signature=PACKED)
    packed = rig.register({"model.pt": model}, contract, "packed", Framework.PYTORCH)
    build = rig.ended(rig.build(packed, Recipe(targets=("torchscript.cpu",))))
    assert build.phase is BuildPhase.COMPLETED, build.reason
    assert "import" not in {step.name for step in build.steps}
    (engine,) = build.engines
    assert engine.tools["torch"].startswith("2.13.0")
    assert engine.batchable
    gates = {gate.name: gate.outcome for gate in engine.gates}
    assert gates["parity"] is GateOutcome.PASSED
    refused = rig.ended(
        rig.build(packed, Recipe(precisions=(Precision.INT8_DYNAMIC,), targets=("torchscript.cpu",)))
    )
    assert refused.phase is BuildPhase.FAILED
    assert "fp32 alone" in refused.reason


def test_each_target_has_its_source_and_its_place() -> None:
    assert [source_target(one) for one in ("ort.cpu.avx512_vnni", "openvino.cpu", "torch.cpu")] == [
        "ort.cpu.avx512_vnni",
        "ort.cpu",
        "torch.cpu",
    ]
    assert family_of("tensorrt_rtx.sm_89") is Family.TENSORRT
    environments.worker("torch")
    place = place_of_target("torchscript.cpu", allow_code=True)
    assert (place.environment, place.walled) == ("torch", True)
    with pytest.raises(Refused, match="SLIPWAY_ALLOW_CODE is false"):
        place_of_target("torch.cpu", allow_code=False)
    with pytest.raises(Refused, match=r"can't build and prove engines for ort\.cuda\.sm_90; it has ort\.cpu"):
        place_of_target("ort.cuda.sm_90", allow_code=False)
    with pytest.raises(Refused, match="targets begin with"):
        place_of_target("tvm.cpu", allow_code=False)
