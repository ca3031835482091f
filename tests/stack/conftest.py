"""Directories that the user who runs PostgreSQL under root can reach (pytest's own are closed to it)."""

import os
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from slipway.stack import Stack


@pytest.fixture
def open_dir() -> Iterator[Path]:
    """A temporary directory that every user can enter."""
    root = Path(tempfile.mkdtemp(prefix="slipway-stack-"))
    root.chmod(0o755)
    yield root
    shutil.rmtree(root)


@pytest.fixture
def plain() -> dict[str, str]:
    """An environment that names no server."""
    return {"PATH": os.environ["PATH"]}


@pytest.fixture
def database_only(stack: Stack, plain: dict[str, str]) -> dict[str, str]:
    """An environment in which a stack starts PostgreSQL alone (the quickest)."""
    shared = stack.addresses.environment()
    del shared["DATABASE_URL"]
    return plain | shared
