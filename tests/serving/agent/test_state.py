"""The state directory."""

import os
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from serving.agent.snapshot import Holding
from serving.agent.state import (
    SOCKET_PATH_LIMIT,
    HeldAssignment,
    Identity,
    StateDirectory,
    StateError,
    held,
)
from tests.serving.agent.making import arm, fragment

IDENTITY = Identity(node="nod_1", environment="prod", registry_id="reg_1", token="secret-token")


def test_identity_is_kept_for_the_owner_only(state: StateDirectory) -> None:
    assert state.identity() is None
    state.keep_identity(IDENTITY)
    assert state.identity() == IDENTITY
    assert stat.S_IMODE((state.root / "identity.json").stat().st_mode) == 0o600


def test_a_damaged_identity_is_told_without_its_secret(state: StateDirectory) -> None:
    (state.root / "identity.json").write_text('{"token": "secret-token"}')
    with pytest.raises(StateError, match="enrol the node anew") as caught:
        state.identity()
    assert "secret-token" not in str(caught.value)


def test_what_is_held_comes_back(state: StateDirectory) -> None:
    holdings = {"prod/m": Holding(fragment(3, [arm(1)]), serving=fragment(2, [arm(2)]))}
    state.keep_assignment(HeldAssignment(etag='"7"', deployments=held(holdings)))
    assert state.assignment().holdings() == holdings
    assert state.assignment().etag == '"7"'


def test_a_damaged_assignment_is_put_aside(state: StateDirectory) -> None:
    (state.root / "assignment.json").write_text('{"etag": "x", "deplo')
    assert state.assignment() == HeldAssignment()
    assert (state.root / "assignment.damaged").exists()


def test_a_long_state_path_still_gets_short_sockets(tmp_path: Path) -> None:
    directory = StateDirectory(tmp_path / ("x" * SOCKET_PATH_LIMIT))
    directory.prepare()
    run = directory.run
    assert len(str(run / "e1234.sock")) < 100
    directory.prepare()
    assert directory.run == run
    run.rmdir()


def test_two_agents_cannot_share_a_directory(state: StateDirectory) -> None:
    descriptor = state.lock()
    program = (
        "import sys; from pathlib import Path; from serving.agent.state import StateDirectory;"
        "StateDirectory(Path(sys.argv[1])).lock()"
    )
    command = [sys.executable, "-c", program, str(state.root)]
    second = subprocess.run(command, capture_output=True, text=True, timeout=30)
    assert f"another node agent (pid {os.getpid()})" in second.stderr
    os.close(descriptor)
    assert subprocess.run(command, capture_output=True, timeout=30).returncode == 0
