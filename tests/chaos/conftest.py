"""A stack of this folder's own, whose servers may be stopped, and registry processes on it."""

import os
import shutil
import tempfile
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

import pytest

from registry import migrate
from slipway.stack import Stack
from tests.chaos.server import Server, environment


@pytest.fixture(scope="module")
def place() -> Iterator[Path]:
    # Not pytest's own temporary directory: under root that is closed to the user who runs PostgreSQL.
    root = Path(tempfile.mkdtemp(prefix="slipway-chaos-"))
    root.chmod(0o711)
    yield root
    shutil.rmtree(root)


@pytest.fixture(scope="module")
def own(place: Path) -> Iterator[Stack]:
    """Not a throwaway one: what was acknowledged must be there after a stop."""
    passed_on = ("PATH", "SLIPWAY_POSTGRES_BIN", "SLIPWAY_VALKEY_SERVER", "SLIPWAY_WEED")
    environ = {name: os.environ[name] for name in passed_on if name in os.environ}
    stack = Stack(place / "data", environ=environ)
    with stack.running() as addresses:
        migrate.upgrade(addresses.database_url)
        yield stack


@pytest.fixture
def serve(own: Stack, place: Path) -> Iterator[Callable[..., Server]]:
    """Starts a registry process; keyword arguments change its environment."""
    servers: list[Server] = []

    def start(**changes: str) -> Server:
        given: Mapping[str, str] = {**own.addresses.environment(), **changes}
        made = Server(environment(given), place / f"server-{len(servers)}.log")
        servers.append(made)
        return made.start()

    yield start
    for each in servers:
        each.stop()
