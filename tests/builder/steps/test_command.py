"""The command that the worker isolates and that a `reproduce` line runs by hand."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from builder.steps.step import StepEnding, StepOutcome
from tests.builder import made


def command(*words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "builder.steps", *words],
        capture_output=True,
        text=True,
        check=False,
        env={"PATH": os.environ["PATH"]},
    )


def outcome(folder: Path) -> StepOutcome:
    return StepOutcome.model_validate_json((folder / "outcome.json").read_bytes())


def test_a_step_runs_on_paths_and_leaves_its_outputs_and_outcome(tmp_path: Path) -> None:
    made.conv_model(tmp_path / "version/model.onnx")
    ran = command(
        "import",
        *("--input", f"version={tmp_path / 'version'}"),
        *("--parameters", json.dumps({"framework": "onnx", "files": ["model.onnx"]})),
        *("--out", str(tmp_path / "out")),
    )
    assert ran.returncode == 0, ran.stderr
    assert "opset 17, 6 nodes, by a test" in ran.stdout
    assert outcome(tmp_path / "out").ending is StepEnding.DONE
    assert (tmp_path / "out/model.onnx").is_file()


def test_a_refusal_is_told_and_is_no_crash(tmp_path: Path) -> None:
    (tmp_path / "version").mkdir()
    (tmp_path / "version/model.pkl").write_bytes(b"\x80\x04")
    ran = command(
        "import",
        *("--input", f"version={tmp_path / 'version'}"),
        *("--parameters", json.dumps({"framework": "sklearn", "files": ["model.pkl"]})),
        *("--out", str(tmp_path / "out")),
    )
    assert ran.returncode == 1
    assert "Traceback" not in ran.stderr
    assert outcome(tmp_path / "out").ending is StepEnding.REFUSED
    assert "execute code" in outcome(tmp_path / "out").reason


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (("--input", "version=/nowhere/at/all"), "give a file or folder that exists"),
        (("--input", "model"), "write NAME=WHERE"),
        ((), "missing: version"),
    ],
)
def test_wrong_inputs_are_named(tmp_path: Path, words: tuple[str, ...], told: str) -> None:
    ran = command(
        "import",
        *words,
        *("--parameters", json.dumps({"framework": "onnx", "files": []})),
        *("--out", str(tmp_path)),
    )
    assert ran.returncode == 1
    assert told in outcome(tmp_path).reason


def test_a_step_whose_worker_has_gone_does_not_begin(tmp_path: Path) -> None:
    ran = command("import", "--out", str(tmp_path), "--parent", "1")
    assert ran.returncode == 1
    assert "has ended" in ran.stderr
