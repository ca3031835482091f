"""Where a step runs, and what is said when it can't run there."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from builder.frontends.plan import Format, Plan
from builder.isolation import launch
from builder.isolation.launch import HERE, Place
from builder.steps.step import Refused, StepEnding, StepOutcome

PICKLE = Plan(Format.SKLEARN_PICKLE, "model.pkl", "trees")


def test_an_onnx_file_is_imported_by_the_worker_itself() -> None:
    assert launch.place_of(Plan(Format.ONNX, "model.onnx", None), allow_code=False) == HERE


def test_foreign_formats_are_read_behind_walls_too() -> None:
    found = launch.place_of(Plan(Format.LIGHTGBM_TEXT, "model.txt", "trees"), allow_code=False)
    assert found == Place("trees", walled=True)


def test_a_format_that_executes_code_needs_the_policy() -> None:
    with pytest.raises(Refused, match=r"executes code.*SLIPWAY_ALLOW_CODE=true"):
        launch.place_of(PICKLE, allow_code=False)
    assert launch.place_of(PICKLE, allow_code=True) == Place("trees", walled=True)


def test_a_missing_environment_is_told_with_the_command_that_makes_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SLIPWAY_CACHE", str(tmp_path))
    with pytest.raises(Refused, match=r"no tensorflow environment; make it with `\./run worker tensorflow`"):
        launch.command(Place("tensorflow"), "import", {}, tmp_path / "p", tmp_path / "out", os.getpid())


def test_a_reproduce_line_says_the_same(tmp_path: Path) -> None:
    """The command that it names runs by hand, and tells a missing environment as an outcome."""
    ended = subprocess.run(
        [
            *(sys.executable, "-m", "builder.steps", "import"),
            *Place("torch", walled=True).words,
            *("--out", str(tmp_path / "out")),
        ],
        capture_output=True,
        text=True,
        check=False,
        env={"PATH": os.environ["PATH"], "SLIPWAY_CACHE": str(tmp_path)},
    )
    outcome = StepOutcome.model_validate_json((tmp_path / "out" / "outcome.json").read_bytes())
    assert (ended.returncode, outcome.ending) == (1, StepEnding.REFUSED)
    assert "`./run worker torch`" in outcome.reason
