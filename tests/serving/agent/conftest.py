"""A registry's side on loopback, and a state directory."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from serving.agent.state import StateDirectory
from tests.serving.agent.peer import Peer


@pytest.fixture
def peer() -> Iterator[Peer]:
    peer = Peer().start()
    yield peer
    peer.stop()


@pytest.fixture
def state(tmp_path: Path) -> StateDirectory:
    directory = StateDirectory(tmp_path / "n")
    directory.prepare()
    return directory
