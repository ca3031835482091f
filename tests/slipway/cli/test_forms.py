"""`-o json` is everywhere, and what it prints is JSON."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import typer

from registry.contract.deployments import Policy
from slipway.cli.app import app, run
from slipway.cli.files import document
from slipway.cli.output import Form, gone

# Text by nature, and a trail in a form of its own (--format).
STREAMS = {"build log", "audit export"}


def _without_output(command: Any, path: str = "") -> Iterator[str]:
    for name, below in getattr(command, "commands", {}).items():
        yield from _without_output(below, f"{path} {name}".strip())
    if not hasattr(command, "commands") and not any(each.name == "output" for each in command.params):
        yield path


def test_every_command_takes_an_output_form_but_the_streams() -> None:
    assert set(_without_output(typer.main.get_command(app))) == STREAMS


def test_a_direct_rollback_answers_in_json(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    socket = tmp_path / "node-1" / "run" / "admin.sock"
    line = ["rollback", "prod/t", "--direct", "--node-socket", str(socket), "-o", "json"]
    assert run(line) == 1
    (answer,) = json.loads(capfd.readouterr().out)
    assert answer["node"] == "node-1"
    assert answer["error"].startswith("it does not answer: ")


def test_a_delete_is_told_to_people_on_stderr_and_to_programs_as_json(
    capfd: pytest.CaptureFixture[str],
) -> None:
    gone("model", "sentiment", Form.TABLE)
    assert capfd.readouterr() == ("", "model sentiment is gone\n")
    gone("model", "sentiment", Form.JSON)
    assert json.loads(capfd.readouterr().out) == {"kind": "model", "name": "sentiment", "gone": True}


@pytest.mark.parametrize(("content", "says"), [("{", "not JSON"), ('{"stepz": 1}', "stepz")])
def test_a_file_that_can_not_be_read_is_named(tmp_path: Path, content: str, says: str) -> None:
    path = tmp_path / "policy.json"
    path.write_text(content)
    with pytest.raises(ValueError, match=rf"policy\.json: .*{says}"):
        document(Policy, path)
