"""What the demo says where it can't do what it promises."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from registry.contract.builds import Build
from registry.contract.engines import Engine, Gate, GateOutcome
from registry.contract.recipes import Precision
from slipway.demo.story import load_told, refusal_of, too_slow


def _build(**gates: GateOutcome) -> Build:
    """Of an FP32 engine that is fine and of an INT8 engine with these gates."""
    against = [name for name, outcome in gates.items() if outcome is GateOutcome.FAILED]
    fine = Engine.model_construct(precision=Precision.FP32, releasable=True, gates=(), reasons=())
    judged = Engine.model_construct(
        version="m@2",
        precision=Precision.INT8_STATIC,
        releasable=not against,
        gates=tuple(Gate(name=name, outcome=outcome, reason="") for name, outcome in gates.items()),
        reasons=tuple(f"{name} failed" for name in against),
    )
    return Build.model_construct(engines=(fine, judged))


@pytest.mark.parametrize(
    ("build", "slow", "why"),
    [
        (_build(speed=GateOutcome.PASSED, parity=GateOutcome.PASSED), False, None),
        (
            _build(speed=GateOutcome.FAILED, golden=GateOutcome.UNPROVEN),
            True,
            "m@2@int8-static was refused: speed failed",
        ),
        (
            _build(speed=GateOutcome.FAILED, parity=GateOutcome.FAILED),
            False,
            "m@2@int8-static was refused: speed failed; parity failed",
        ),
    ],
)
def test_only_speed_is_worth_a_second_try(build: Build, slow: bool, why: str | None) -> None:
    assert too_slow(build) is slow
    assert refusal_of(build) == why
    assert "load " in load_told()


def test_a_demo_that_stops_prints_a_document_with_the_reason(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "slipway.demo", "-o", "json", "--home", str(tmp_path / "demo")],
        env={**os.environ, "DATABASE_URL": "mysql://ann:SECRETPW@127.0.0.1/x"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 1
    assert json.loads(done.stdout)["failed"].startswith("DATABASE_URL=mysql://***@127.0.0.1/x is not")
    assert "SECRETPW" not in done.stdout + done.stderr
