"""Real children that crash, eat memory, hang or fork: the caller gets an outcome, and nothing is left."""

import os
import signal
import sys
import threading
import time
from pathlib import Path

import psutil
import pytest

from builder.isolation import isolate
from builder.isolation.isolate import Ending, Limits, Outcome

ROOMY = Limits(timeout_s=60, memory_bytes=2048 * isolate.MIB)


def run(
    tmp_path: Path, code: str, limits: Limits = ROOMY, stop: threading.Event | None = None
) -> tuple[Outcome, str]:
    heard: list[str] = []
    outcome = isolate.run(
        [sys.executable, "-c", code],
        folder=tmp_path,
        log=tmp_path / "log",
        limits=limits,
        environment={"PATH": os.environ["PATH"]},
        heard=heard.append,
        stop=stop or threading.Event(),
    )
    return outcome, "".join(heard)


def gone(pid: int) -> bool:
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline:
        if not psutil.pid_exists(pid) or psutil.Process(pid).status() == psutil.STATUS_ZOMBIE:
            return True
        time.sleep(0.02)
    return False


def test_output_is_handed_on_and_kept_and_no_character_is_cut(tmp_path: Path) -> None:
    outcome, heard = run(tmp_path, "import sys; print('größer', flush=True); print('≥', file=sys.stderr)")
    assert outcome.ending is Ending.OK
    assert outcome.reason == ""
    assert heard == "größer\n≥\n" == (tmp_path / "log").read_text()


def test_output_arrives_while_the_command_runs(tmp_path: Path) -> None:
    stop = threading.Event()
    heard: list[str] = []

    def listen(text: str) -> None:
        heard.append(text)
        stop.set()

    outcome = isolate.run(
        [sys.executable, "-c", "import time; print('begun', flush=True); time.sleep(600)"],
        folder=tmp_path,
        log=tmp_path / "log",
        limits=ROOMY,
        environment={"PATH": os.environ["PATH"]},
        heard=listen,
        stop=stop,
    )
    assert (outcome.ending, "".join(heard)) == (Ending.STOPPED, "begun\n")


def test_an_exit_code_is_a_failure_that_names_it(tmp_path: Path) -> None:
    outcome, _ = run(tmp_path, "raise SystemExit(7)")
    assert (outcome.ending, outcome.code) == (Ending.FAILED, 7)
    assert "7" in outcome.reason


def test_a_segmentation_fault_is_an_outcome(tmp_path: Path) -> None:
    outcome, _ = run(tmp_path, "import ctypes; ctypes.string_at(0)")
    assert (outcome.ending, outcome.code) == (Ending.CRASHED, -signal.SIGSEGV)
    assert "SIGSEGV" in outcome.reason


def test_a_foreign_kill_is_told_as_memory(tmp_path: Path) -> None:
    outcome, _ = run(tmp_path, "import os, signal; os.kill(os.getpid(), signal.SIGKILL)")
    assert outcome.ending is Ending.OUT_OF_MEMORY
    assert "ran out of memory" in outcome.reason


def test_memory_is_limited_and_the_limit_is_named(tmp_path: Path) -> None:
    eater = "import time\nkept = []\nwhile True: kept.append(bytearray(b'x' * (8 << 20))); time.sleep(0.02)"
    outcome, _ = run(tmp_path, eater, Limits(timeout_s=60, memory_bytes=200 * isolate.MIB))
    assert outcome.ending is Ending.OUT_OF_MEMORY
    assert "200 MiB" in outcome.reason
    assert outcome.peak_memory_bytes > 200 * isolate.MIB


def test_memory_of_grandchildren_counts(tmp_path: Path) -> None:
    eater = (
        "import subprocess, sys\n"
        "eater = 'kept = bytearray(b\"x\" * (300 << 20)); import time; time.sleep(600)'\n"
        "subprocess.run([sys.executable, '-c', eater])"
    )
    outcome, _ = run(tmp_path, eater, Limits(timeout_s=60, memory_bytes=200 * isolate.MIB))
    assert outcome.ending is Ending.OUT_OF_MEMORY


def test_one_huge_allocation_fails_in_the_child(tmp_path: Path) -> None:
    outcome, heard = run(tmp_path, "bytearray(1 << 42)", Limits(timeout_s=60, memory_bytes=200 * isolate.MIB))
    assert outcome.ending is Ending.FAILED
    assert "MemoryError" in heard


def test_peak_memory_is_that_of_the_command(tmp_path: Path) -> None:
    """Also when the process that runs it is larger itself."""
    larger = bytearray(b"y" * (500 << 20))
    outcome, _ = run(tmp_path, "import time; kept = bytearray(b'x' * (120 << 20)); time.sleep(1)")
    assert len(larger) == 500 << 20
    assert 120 * isolate.MIB < outcome.peak_memory_bytes < 400 * isolate.MIB


def test_time_is_limited_and_the_whole_group_goes(tmp_path: Path) -> None:
    code = (
        "import subprocess, sys, time\n"
        "child = subprocess.Popen([sys.executable, '-c', 'import time; time.sleep(600)'])\n"
        "print(child.pid, flush=True)\n"
        "time.sleep(600)"
    )
    outcome, heard = run(tmp_path, code, Limits(timeout_s=2, memory_bytes=2048 * isolate.MIB))
    assert outcome.ending is Ending.TIMED_OUT
    assert "2 s" in outcome.reason
    assert gone(int(heard))


def test_what_a_finished_command_left_running_goes_too(tmp_path: Path) -> None:
    code = (
        "import subprocess, sys\n"
        "print(subprocess.Popen([sys.executable, '-c', 'import time; time.sleep(600)']).pid)"
    )
    outcome, heard = run(tmp_path, code)
    assert outcome.ending is Ending.OK
    assert gone(int(heard))


def test_a_stop_that_was_asked_for_before_runs_nothing_long(tmp_path: Path) -> None:
    stop = threading.Event()
    stop.set()
    outcome, _ = run(tmp_path, "import time; time.sleep(600)", stop=stop)
    assert outcome.ending is Ending.STOPPED


def test_the_environment_is_only_what_is_given(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SLIPWAY_TOKEN", "secret")
    _, heard = run(tmp_path, "import os; print(os.environ.get('SLIPWAY_TOKEN'))")
    assert heard == "None\n"
