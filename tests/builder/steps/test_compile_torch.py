"""Versions that stay PyTorch's: made behind walls, held against the framework, refused anywhere else."""

from pathlib import Path

import pytest

from builder.data.samples import write_samples
from builder.isolation.launch import Place
from builder.steps import compile_torch, importing
from builder.steps.compile_torch import ENGINE, CompileTorchParameters, CompileTorchResult, kind_of
from builder.steps.sample import made_up
from builder.steps.step import Refused, perform
from registry.contract.versions import Dtype, Framework, Signature, SourceOptions, TensorSpec
from serving.runtimes.bundle import unpack
from serving.runtimes.torch import PARTS, WANTED, Kind
from tests.builder.steps.elsewhere import PACKED, perform_in, write_torch_versions

# The first one here may have to make an environment.
pytestmark = pytest.mark.timeout(1200)

PLACE = Place("torch", walled=True)
NET = Signature(
    inputs=(TensorSpec(name="x", dtype=Dtype.FP32, shape=("batch", 4)),),
    outputs=(TensorSpec(name="scores", dtype=Dtype.FP32, shape=("batch", 3)),),
)


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_torch_versions(tmp_path_factory.mktemp("native"))


def parameters(name: str, target: str) -> CompileTorchParameters:
    entry = {"source": "net:build"}.get(name)
    return CompileTorchParameters(
        target=target,
        framework=Framework.PYTORCH,
        files={"script": ("model.pt",), "program": ("model.pt2",), "source": ("model.pt", "net.py")}[name],
        source=SourceOptions(entry=entry) if entry else SourceOptions(),
        signature=PACKED if name == "script" else NET,
        max_rows=8,
    )


def compiled(home: Path, name: str, target: str, out: Path) -> CompileTorchResult:
    sample = out.parent / f"{out.name}.npz"
    write_samples(sample, made_up(PACKED if name == "script" else NET, 4))
    inputs = {"version": home / name, "sample": sample}
    return perform_in(PLACE, compile_torch.STEP, parameters(name, target), inputs, out)


def part(engine: Path, kind: Kind) -> bytes:
    return unpack(engine, WANTED[kind], (PARTS[kind],))[1][0]


def test_a_script_that_packs_its_sequences_has_no_form_in_onnx(home: Path, tmp_path: Path) -> None:
    sample = tmp_path / "onnx.npz"
    write_samples(sample, made_up(PACKED, 4))
    asked = importing.ImportParameters(
        framework=Framework.PYTORCH, files=("model.pt",), signature=PACKED, max_rows=8
    )
    with pytest.raises(Refused, match="pack_padded_sequence"):
        perform_in(
            PLACE, importing.STEP, asked, {"version": home / "script", "sample": sample}, tmp_path / "onnx"
        )


@pytest.mark.parametrize(
    ("name", "target"), [("program", "torch.cpu"), ("source", "torch.cpu"), ("source", "torchscript.cpu")]
)
def test_programs_and_source_become_engines(home: Path, tmp_path: Path, name: str, target: str) -> None:
    found = compiled(home, name, target, tmp_path / "out")
    assert found.batchable
    assert found.deviation < 1e-5
    assert found.runs >= 8
    if name == "program":
        assert part(tmp_path / "out" / ENGINE, "torch") == (home / "program" / "model.pt2").read_bytes()


@pytest.mark.parametrize(
    ("name", "target", "other"),
    [("script", "torch.cpu", r"torchscript\.cpu"), ("program", "torchscript.cpu", r"torch\.cpu")],
)
def test_between_the_two_formats_there_is_no_way(tmp_path: Path, name: str, target: str, other: str) -> None:
    inputs = {"version": tmp_path, "sample": tmp_path}
    with pytest.raises(Refused, match=f"doesn't run; build it for {other}, or register"):
        perform(compile_torch.STEP, parameters(name, target), inputs, tmp_path / "out")


def test_outside_of_walls_it_is_refused(home: Path, tmp_path: Path) -> None:
    write_samples(tmp_path / "sample.npz", made_up(NET, 2))
    inputs = {"version": home / "program", "sample": tmp_path / "sample.npz"}
    with pytest.raises(Refused, match="in a sandbox only: perform the step with --walled"):
        perform(compile_torch.STEP, parameters("program", "torch.cpu"), inputs, tmp_path / "out")


def test_a_target_of_other_formats_is_refused() -> None:
    assert kind_of("torchscript.cpu") == "torchscript"
    with pytest.raises(Refused, match=r"these are torch\.cpu and torchscript\.cpu"):
        kind_of("torch.cuda")
