"""TensorRT engines, really built by TensorRT for RTX, which needs no card for that. Running needs one."""

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

from builder.data.samples import Sample, write_samples
from builder.isolation.launch import Place
from builder.steps import compile_tensorrt, parity
from builder.steps.compile_tensorrt import (
    ENGINE,
    CompileTensorRtParameters,
    CompileTensorRtResult,
    Profile,
    parts_of,
    timing_key,
)
from builder.steps.step import Refused, perform
from serving.runtimes import cuda
from serving.runtimes.bundle import unpack
from serving.runtimes.targets import has_package
from serving.runtimes.tensorrt import PLAN, WANTED
from tests import environments
from tests.builder.steps.elsewhere import perform_in
from tests.serving import tiny_models

# The first one here may have to make an environment.
pytestmark = pytest.mark.timeout(1200)

TARGET = "tensorrt_rtx.sm_89"
PLACE = Place("tensorrt-rtx")


def compiled(
    model: Path, sample: Path, out: Path, target: str = TARGET, max_rows: int = 32
) -> CompileTensorRtResult:
    environments.worker("tensorrt-rtx")
    parameters = CompileTensorRtParameters(target=target, max_rows=max_rows)
    return perform_in(PLACE, compile_tensorrt.STEP, parameters, {"model": model, "sample": sample}, out)


def no_card() -> None:
    if cuda.capabilities():
        pytest.skip("this machine has a card: what happens without one can't be provoked here")


def test_an_engine_is_built_twice_with_equal_bytes_and_says_what_it_is_for(
    tmp_path: Path, model: Path, sample: Path
) -> None:
    no_card()
    found = compiled(model, sample, tmp_path / "one")
    assert found.profiles == {
        "image": Profile(least=(1, 1, 12, 12), best=(8, 1, 12, 12), most=(32, 1, 12, 12))
    }
    assert not found.verified
    assert "never ran on a card" in found.says
    again = compiled(model, sample, tmp_path / "two")
    assert again.timing_key == found.timing_key
    one, two = (tmp_path / name / ENGINE for name in ("one", "two"))
    assert one.read_bytes() == two.read_bytes()
    signature, (plan,) = unpack(one, WANTED, (PLAN,))
    assert [spec.shape for spec in signature.inputs] == [("batch", 1, 12, 12)]
    assert len(plan) > 10_000

    parameters = parity.ParityParameters(target=TARGET, source_target="ort.cpu", max_rows=1)
    inputs = {"source": model, "engine": one, "sample": sample}
    with pytest.raises(Refused, match=r"CUDA was asked for.*no driver here.*build for ort.cpu"):
        perform_in(PLACE, parity.STEP, parameters, inputs, tmp_path / "parity")


def test_what_tensorrt_cannot_read_is_refused_in_its_words(tmp_path: Path) -> None:
    text = tiny_models.echo(tmp_path / "text.onnx")
    sample = tmp_path / "sample.npz"
    write_samples(sample, [Sample("row", {"x": np.array([["text"]], dtype=np.object_)})])
    with pytest.raises(Refused, match=r"TensorRT can't read the model: .*pre-processing"):
        compiled(text, sample, tmp_path / "text")


def test_a_model_quantised_for_the_cpu_is_refused(tmp_path: Path, model: Path, sample: Path) -> None:
    nodes = [
        helper.make_node("DynamicQuantizeLinear", ["image"], ["q", "scale", "zero"]),
        helper.make_node("DequantizeLinear", ["q", "scale", "zero"], ["y"]),
    ]
    shape = ["batch", 1, 12, 12]
    graph = helper.make_graph(
        nodes,
        "dynamic",
        [helper.make_tensor_value_info("image", TensorProto.FLOAT, shape)],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, shape)],
    )
    built = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)], ir_version=10)
    onnx.save(built, tmp_path / "dynamic.onnx")
    with pytest.raises(Refused, match="quantised for the CPU is none for TensorRT"):
        compiled(tmp_path / "dynamic.onnx", sample, tmp_path / "out")


def test_an_unknown_capability_is_refused_with_the_known_ones(
    tmp_path: Path, model: Path, sample: Path
) -> None:
    with pytest.raises(Refused, match=r"doesn't build for sm_61; it builds for .*sm_89"):
        compiled(model, sample, tmp_path / "out", "tensorrt_rtx.sm_61")


def test_without_the_package_the_remedy_is_told(tmp_path: Path, model: Path, sample: Path) -> None:
    if has_package("tensorrt"):
        pytest.skip("this environment has TensorRT: that it is missing can't be provoked here")
    parameters = CompileTensorRtParameters(target="tensorrt.sm_90", max_rows=4)
    with pytest.raises(Refused, match=r"no tensorrt.*extra `gpu`"):
        perform(compile_tensorrt.STEP, parameters, {"model": model, "sample": sample}, tmp_path / "out")


@pytest.mark.parametrize("target", ["tensorrt", "tensorrt.90", "ort.cuda.sm_90"])
def test_a_target_without_its_capability_is_refused(target: str) -> None:
    with pytest.raises(Refused, match="no target of TensorRT"):
        parts_of(target)


def test_timings_hold_for_the_same_of_all_that_they_depend_on() -> None:
    profile = {"x": Profile(least=(1, 4), best=(8, 4), most=(16, 4))}
    wider = {"x": Profile(least=(1, 4), best=(8, 4), most=(32, 4))}
    first = ("sha256-" + "0" * 64, "tensorrt 10.16", "sm_90", "13000", profile)
    assert timing_key(*first) == timing_key(*first)
    others = [
        ("sha256-" + "1" * 64, *first[1:]),
        (first[0], "tensorrt 11.4", *first[2:]),
        (*first[:2], "sm_89", *first[3:]),
        (*first[:3], "12080", profile),
        (*first[:4], wider),
    ]
    assert len({timing_key(*other) for other in (first, *others)}) == 6


@pytest.mark.gpu
def test_an_engine_answers_like_its_source_on_a_card(tmp_path: Path, model: Path, sample: Path) -> None:
    cards = cuda.capabilities()
    if not cards:
        pytest.skip("no NVIDIA card here: what TensorRT's engines answer is not verified")
    target = f"tensorrt_rtx.{cards[0]}"
    compiled(model, sample, tmp_path / "engine", target)
    compared = perform_in(
        PLACE,
        parity.STEP,
        parity.ParityParameters(target=target, source_target="ort.cpu", max_rows=8, classes="scores"),
        {"source": model, "engine": tmp_path / "engine" / ENGINE, "sample": sample},
        tmp_path / "parity",
    )
    assert compared.report.flips == 0
    assert min(output.cosine for output in compared.report.outputs) > 0.9999


def test_the_probe_for_cards_answers_in_a_process_of_its_own() -> None:
    no_card()
    ended = subprocess.run(
        [sys.executable, "-m", "serving.runtimes.cuda"],
        capture_output=True,
        text=True,
        check=False,
        env={"PATH": os.environ["PATH"]},
        cwd=environments.ROOT,
    )
    assert (ended.returncode, ended.stdout.split()) == (0, [])
