"""The reaper, against a real launcher that is killed."""

import signal
import subprocess
import sys
import time
from pathlib import Path

from slipway.stack.identity import ProcessIdentity
from slipway.stack.reaper import Reaper

# Starts a child from a thread that ends at once (a parent-death signal would kill the child then), tells the
# reaper, and waits for its own end.
_LAUNCHER = """
import sys, threading, time
from pathlib import Path
from slipway.stack.process import Child, Command
from slipway.stack.reaper import Reaper

reaper = Reaper()
started = []
def start():
    home = Path(sys.argv[1])
    argv = (sys.executable, "-c", sys.argv[2], str(home / "asked"))
    started.append(Child(Command("child", argv, home / "child.log", home), reaper))
thread = threading.Thread(target=start)
thread.start()
thread.join()
print(started[0].pid, reaper.pid, flush=True)
time.sleep(60)
"""
_POLITE = """
import pathlib, signal, sys, time
signal.signal(signal.SIGTERM, lambda *_: (pathlib.Path(sys.argv[1]).write_text("asked"), sys.exit()))
pathlib.Path(sys.argv[1]).with_name("ready").touch()
time.sleep(60)
"""


def _gone(pid: int, within_s: float = 15) -> bool:
    deadline = time.monotonic() + within_s
    while ProcessIdentity.of(pid) is not None:
        if time.monotonic() > deadline:
            return False
        time.sleep(0.02)
    return True


def test_children_of_a_launcher_that_is_killed_are_asked_to_stop(tmp_path: Path) -> None:
    launcher = subprocess.Popen(
        [sys.executable, "-c", _LAUNCHER, str(tmp_path), _POLITE], stdout=subprocess.PIPE, text=True
    )
    with launcher:
        assert launcher.stdout is not None
        child, reaper = (int(word) for word in launcher.stdout.readline().split())
        while not (tmp_path / "ready").exists():
            time.sleep(0.02)
        launcher.kill()

    assert _gone(child)
    assert _gone(reaper)
    assert (tmp_path / "asked").read_text() == "asked"


def test_it_leaves_alone_a_process_that_only_has_the_same_id() -> None:
    with subprocess.Popen(["sleep", "60"]) as stranger:
        found = ProcessIdentity.of(stranger.pid)
        assert found is not None
        reaper = Reaper()
        reaper.watch(found.pid, found.ticks + 1, signal.SIGKILL)
        reaper.close()

        assert stranger.poll() is None
        stranger.kill()
