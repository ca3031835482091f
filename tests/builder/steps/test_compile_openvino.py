"""OpenVINO engines, made in their environment: equal bytes, equal answers, and clear words without it."""

from pathlib import Path

import pytest

from builder.isolation.launch import Place
from builder.steps import bench, compile_openvino, parity
from builder.steps.compile_openvino import CompileOpenVinoParameters
from builder.steps.step import Refused, perform
from registry.contract.pipeline import PipelineSpec
from serving.runtimes.bundle import pack
from serving.runtimes.openvino import MODEL, WEIGHTS
from serving.runtimes.targets import has_package
from tests import environments
from tests.builder import made
from tests.builder.steps.elsewhere import perform_in
from tests.serving import tiny_models

# The first one here may have to make an environment.
pytestmark = pytest.mark.timeout(1200)

PARAMETERS = CompileOpenVinoParameters(target="openvino.cpu")
PLACE = Place("openvino")


@pytest.fixture(scope="module")
def openvino() -> None:
    environments.worker("openvino")


@pytest.fixture
def engine(openvino: None, tmp_path: Path, model: Path, sample: Path) -> Path:
    inputs = {"model": model, "sample": sample}
    found = perform_in(PLACE, compile_openvino.STEP, PARAMETERS, inputs, tmp_path / "one")
    assert found.tool.startswith("2026.4.1")
    return tmp_path / "one" / compile_openvino.ENGINE


def test_equal_input_gives_equal_bytes_that_answer_like_the_source(
    tmp_path: Path, engine: Path, model: Path, sample: Path
) -> None:
    inputs = {"model": model, "sample": sample}
    perform_in(PLACE, compile_openvino.STEP, PARAMETERS, inputs, tmp_path / "two")
    assert engine.read_bytes() == (tmp_path / "two" / compile_openvino.ENGINE).read_bytes()
    compared = perform_in(
        PLACE,
        parity.STEP,
        parity.ParityParameters(target="openvino.cpu", source_target="ort.cpu", max_rows=8, classes="scores"),
        {"source": model, "engine": engine, "sample": sample},
        tmp_path / "parity",
    )
    assert (compared.report.flips, compared.batchable) == (0, True)
    assert min(output.cosine for output in compared.report.outputs) > 0.99999
    assert compared.input_shapes == {"image": ("batch", 1, 12, 12)}
    measured = perform_in(
        PLACE,
        bench.STEP,
        bench.BenchParameters(
            target="openvino.cpu",
            source_target="ort.cpu",
            signature=made.CONTRACT.signature,
            pipeline=PipelineSpec(),
            max_rows=4,
            budget_s=0.1,
        ),
        {"source": model, "engine": engine, "sample": sample},
        tmp_path / "bench",
    )
    assert measured.report.provider == "CPU"
    assert max(point.rows for point in measured.report.points) == 4


def test_other_weights_are_told_apart(openvino: None, tmp_path: Path, model: Path, sample: Path) -> None:
    other = made.conv_model(tmp_path / "other.onnx", more={"dense": -made.weights()["dense"]})
    perform_in(
        PLACE, compile_openvino.STEP, PARAMETERS, {"model": other, "sample": sample}, tmp_path / "other"
    )
    compared = perform_in(
        PLACE,
        parity.STEP,
        parity.ParityParameters(target="openvino.cpu", source_target="ort.cpu", max_rows=1, classes="scores"),
        {"source": model, "engine": tmp_path / "other" / compile_openvino.ENGINE, "sample": sample},
        tmp_path / "parity",
    )
    assert (compared.report.flips or 0) > 10


def test_texts_are_refused_with_the_remedy(openvino: None, tmp_path: Path, sample: Path) -> None:
    model = tiny_models.echo(tmp_path / "text.onnx")
    with pytest.raises(Refused, match=r"pre-processing, or build for ort\.cpu"):
        perform_in(
            PLACE, compile_openvino.STEP, PARAMETERS, {"model": model, "sample": sample}, tmp_path / "out"
        )


def test_without_the_package_the_remedy_is_told(tmp_path: Path, model: Path, sample: Path) -> None:
    if has_package("openvino"):
        pytest.skip("this environment has OpenVINO: that it is missing can't be provoked here")
    with pytest.raises(Refused, match=r"no openvino.*`openvino`.*\./run worker openvino"):
        perform(compile_openvino.STEP, PARAMETERS, {"model": model, "sample": sample}, tmp_path / "out")
    pack(tmp_path / "engine", made.CONTRACT.signature, {MODEL: b"", WEIGHTS: b""})
    with pytest.raises(Refused, match="no openvino"):
        perform(
            parity.STEP,
            parity.ParityParameters(target="openvino.cpu", source_target="ort.cpu", max_rows=1),
            {"source": model, "engine": tmp_path / "engine", "sample": sample},
            tmp_path / "parity",
        )
