"""Every command of README's tour, in its order, against a service that was started as README says."""

import re
import shlex
from pathlib import Path

import httpx

from tests.acceptance.conftest import Place, answer

README = Path(__file__).resolve().parents[2] / "README.md"


def tour() -> list[list[str]]:
    lines = re.findall(r"^\.venv/bin/slipway (.*)$", README.read_text(), re.MULTILINE)
    return [shlex.split(line, comments=True) for line in lines]


def test_the_tour_works_and_ends_with_a_refusal_that_helps(place: Place) -> None:
    commands = tour()
    assert len(commands) >= 9
    for arguments in commands:
        # The first release has nothing to go back to; the tour says so, with what is possible instead.
        place.slipway(*arguments, code=5 if arguments[0] == "rollback" else 0)
        if arguments[0] == "wait":
            predict(place)


def predict(place: Place) -> None:
    """A node answers with the version that was released, and says so on the answer."""
    listed = place.slipway("node", "list", "-o", "jsonl").splitlines()
    assert len(listed) == 2
    for line in listed:
        address = answer(line)["address"]
        found = httpx.post(
            f"http://{address}/v2/models/sentiment/predict", json={"x": [0.0, 4.0, 0.0]}, trust_env=False
        )
        assert found.status_code == 200, found.text
        assert found.json()["answer"]["label"] == "dog"
        assert found.headers["x-slipway-version"].startswith("sentiment@1")
