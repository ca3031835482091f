"""`slipway up` with a plan of one small process, in a process of its own."""

import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from slipway.stack.identity import ProcessIdentity

_UP = """
import sys
from pathlib import Path
from slipway.children import ChildSpec
from slipway.up import Plan, up

CHILD = '''
import os, time
import psycopg
with psycopg.connect(os.environ["DATABASE_URL"]) as database:
    print("tables:", database.execute("SELECT count(*) FROM alembic_version").fetchone()[0], flush=True)
print("colour:", os.environ["COLOUR"], flush=True)
time.sleep(120)
'''
def plan(addresses):
    children = [ChildSpec("child", (sys.executable, "-c", CHILD), stop_grace_s=5)]
    return Plan(children, {"COLOUR": "blue"}, f"everything is up: {addresses.s3_endpoint_url}")

try:
    up(plan, data_dir=Path(sys.argv[1]), announce=lambda line: print(line, flush=True))
except KeyboardInterrupt:
    print("interrupted", flush=True)
"""


@pytest.fixture
def home() -> Iterator[Path]:
    root = Path(tempfile.mkdtemp(prefix="slipway-up-"))
    root.chmod(0o755)
    yield root
    shutil.rmtree(root)


def _start(home: Path) -> "subprocess.Popen[str]":
    return subprocess.Popen(
        [sys.executable, "-c", _UP, str(home / "data")], stdout=subprocess.PIPE, text=True
    )


def _processes_of(home: Path) -> list[int]:
    """Every process whose command line names `home`."""
    found = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            named = str(home).encode() in path.read_bytes()
        except OSError:
            continue
        if named and ProcessIdentity.of(int(path.parent.name)) is not None:
            found.append(int(path.parent.name))
    return found


def test_up_migrates_runs_the_plan_and_stops_everything_when_told(home: Path) -> None:
    with _start(home) as service:
        assert service.stdout is not None
        lines = iter(service.stdout.readline, "")
        assert any(line.startswith("everything is up: http://127.0.0.1:") for line in lines)
        assert _processes_of(home)
        while "colour" not in (home / "logs" / "child.log").read_text():
            time.sleep(0.05)
        service.send_signal(signal.SIGTERM)
        assert service.stdout.read() == "stopping …\n"
    assert service.returncode == 0
    assert _processes_of(home) == []
    assert (home / "logs" / "child.log").read_text() == "tables: 1\ncolour: blue\n"


def test_sigterm_while_the_servers_start_leaves_nothing_running(home: Path) -> None:
    with _start(home) as service:
        while not list(home.glob("data/postgres/making-*/cluster")):
            assert service.poll() is None
        service.send_signal(signal.SIGTERM)
        assert service.stdout is not None
        assert service.stdout.read() == "interrupted\n"
    assert _processes_of(home) == []
