"""PyTorch programs, TorchScript, and state-dicts with their source."""

import json
import os
import subprocess
from pathlib import Path

import onnx
import pytest

from builder.frontends.plan import Format, Plan
from builder.isolation import launch
from builder.steps.step import StepEnding, StepOutcome
from tests.builder.frontends.inside.cases import Case

# The first one here may have to make an environment.
pytestmark = pytest.mark.timeout(1200)

TEXT = {
    "inputs": [
        {"name": "tokens", "dtype": "INT64", "shape": ["batch", "length"]},
        {"name": "mask", "dtype": "INT64", "shape": ["batch", "length"]},
    ],
    "outputs": [{"name": "scores", "dtype": "FP32", "shape": ["batch", 3]}],
}
SOURCE = """
import torch
from torch import nn

class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.words = nn.Embedding(40, 8)
        self.reader = nn.LSTM(8, 12, batch_first=True)
        self.head = nn.Linear(12, 3)

    def forward(self, tokens, mask):
        states, _ = self.reader(self.words(tokens))
        kept = mask.unsqueeze(-1).to(states.dtype)
        return self.head((states * kept).sum(1) / kept.sum(1).clamp(min=1.0))

def build():
    return Net()
"""
SHAPES = {"words.weight": (40, 8), "head.weight": (3, 12), "head.bias": (3,)}
SHAPES |= {f"reader.{side}_l0": (48, 8 if side == "weight_ih" else 12) for side in ("weight_ih", "weight_hh")}
SHAPES |= {f"reader.{side}_l0": (48,) for side in ("bias_ih", "bias_hh")}


def axes(path: Path) -> dict[str, list[int | str]]:
    model = onnx.load(str(path))
    return {
        value.name: [dim.dim_param or dim.dim_value for dim in value.type.tensor_type.shape.dim]
        for value in (*model.graph.input, *model.graph.output)
    }


def test_a_program_is_exported_by_dynamo_with_the_contracts_axes(
    torch_home: Path, torch_cases: dict[str, Case]
) -> None:
    case = torch_cases["program"]
    assert case.ending == "done", case.told
    assert case.result["exporter"].startswith("torch.onnx-dynamo 2.13.0")
    assert case.result["opset"] == 18
    assert axes(torch_home / "program" / "model.onnx") == {
        "image": ["batch", 1, "height", "width"],
        "scores": ["batch", 4],
    }
    assert "5×1×5×5" in case.told


def test_the_older_exporter_takes_a_program_too_and_says_so(torch_cases: dict[str, Case]) -> None:
    case = torch_cases["legacy"]
    assert case.ending == "done", case.told
    assert case.result["exporter"].startswith("torch.onnx-legacy")
    assert "exported by the older exporter, asked for" in case.told


def test_a_program_of_one_example_row_has_its_batch_frozen(torch_cases: dict[str, Case]) -> None:
    case = torch_cases["frozen"]
    assert case.ending == "refused"
    assert "axis 0 (batch) of input 'image'" in case.told
    assert "frozen at 1" in case.told
    assert "dynamic_shapes" in case.told


def test_inputs_and_outputs_are_matched_by_their_names(torch_cases: dict[str, Case]) -> None:
    """The module takes them in another order; a mix-up would deviate by far."""
    assert torch_cases["swapped"].ending == "done", torch_cases["swapped"].told


def test_an_operator_that_onnx_lacks_is_named_with_its_module(torch_cases: dict[str, Case]) -> None:
    case = torch_cases["unconvertible"]
    assert case.ending == "refused"
    assert "operator aten::special_bessel_j0 of module 'odd'" in case.told
    assert "torchscript.cpu" in case.told


def test_a_recurrent_text_classifier_keeps_batch_and_length_open(
    torch_home: Path, torch_cases: dict[str, Case]
) -> None:
    case = torch_cases["text"]
    assert case.ending == "done", case.told
    assert axes(torch_home / "text" / "model.onnx")["tokens"] == ["batch", "length"]
    assert case.result["deviation"] < 1e-5
    assert case.facts["padding"]["with"] < 1e-5 < 1e-3 < case.facts["padding"]["without"]
    assert "older exporter" in case.told


def test_packed_sequences_are_explained(torch_cases: dict[str, Case]) -> None:
    case = torch_cases["packed"]
    assert case.ending == "refused"
    assert "uses pack_padded_sequence" in case.told
    assert "mask.unsqueeze(-1)" in case.told


def test_weights_alone_are_no_model(torch_cases: dict[str, Case]) -> None:
    assert torch_cases["weights"].ending == "refused"
    assert "a state-dict alone holds no model" in torch_cases["weights"].told


def test_source_is_not_run_outside_of_a_sandbox(torch_cases: dict[str, Case]) -> None:
    assert torch_cases["outside"].ending == "refused"
    assert "loaded in a sandbox only" in torch_cases["outside"].told


def test_a_voice_detector_with_state_matches_over_a_hundred_steps(torch_cases: dict[str, Case]) -> None:
    case = torch_cases["silero"]
    assert case.ending == "done", case.told
    assert case.facts["worst"] < 1e-4
    assert case.facts["worst_shipped"] < 1e-4


def walled(tmp_path: Path, version: Path, parameters: dict[str, object]) -> StepOutcome:
    """The import step in a sandbox, as a worker that allows code runs it."""
    out = tmp_path / "out"
    out.mkdir()
    (tmp_path / "parameters.json").write_text(json.dumps({"framework": "pytorch", **parameters}))
    place = launch.place_of(Plan(Format.TORCH_SOURCE, "model.safetensors", "torch"), allow_code=True)
    command = launch.command(
        place, "import", {"version": version}, tmp_path / "parameters.json", out, os.getpid()
    )
    ended = subprocess.run(
        command, capture_output=True, text=True, check=False, env={"PATH": os.environ["PATH"]}
    )
    assert (out / "outcome.json").is_file(), ended.stderr
    return StepOutcome.model_validate_json((out / "outcome.json").read_bytes())


def write_weights(path: Path) -> None:
    """A safetensors file, by hand: this environment has no PyTorch."""
    import numpy as np

    generator = np.random.default_rng(3)
    header, content = {}, b""
    for name, shape in SHAPES.items():
        data = (generator.standard_normal(shape) * 0.3).astype(np.float32).tobytes()
        offsets = [len(content), len(content) + len(data)]
        header[name] = {"dtype": "F32", "shape": list(shape), "data_offsets": offsets}
        content += data
    described = json.dumps(header).encode()
    path.write_bytes(len(described).to_bytes(8, "little") + described + content)


def test_source_and_state_dict_are_imported_in_the_sandbox(tmp_path: Path) -> None:
    version = tmp_path / "version"
    version.mkdir()
    (version / "net.py").write_text(SOURCE)
    write_weights(version / "model.safetensors")
    outcome = walled(
        tmp_path,
        version,
        {
            "files": ["net.py", "model.safetensors"],
            "signature": TEXT,
            "source": {"entry": "net:build"},
            "max_rows": 8,
        },
    )
    assert outcome.ending is StepEnding.DONE, outcome.reason
    assert "older exporter, because of the other: it unrolls recurrent layers" in outcome.reason
    assert axes(tmp_path / "out" / "model.onnx")["mask"] == ["batch", "length"]


def test_another_process_writes_the_same_bytes(torch_home: Path, tmp_path: Path) -> None:
    version = torch_home / "text.version"
    outcome = walled(tmp_path, version, {"files": ["model.pt"], "signature": TEXT, "max_rows": 8})
    assert outcome.ending is StepEnding.DONE, outcome.reason
    assert (tmp_path / "out/model.onnx").read_bytes() == (torch_home / "text/model.onnx").read_bytes()


@pytest.mark.parametrize("name", ["program", "text", "silero"])
def test_no_trace_of_the_machine_is_left(torch_home: Path, name: str) -> None:
    content = (torch_home / name / "model.onnx").read_bytes()
    assert str(torch_home).encode() not in content
    assert b"site-packages" not in content
