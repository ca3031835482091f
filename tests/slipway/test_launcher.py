"""The launcher with real, tiny processes."""

import http.client
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from slipway.children import ChildFailed, ChildPhase, ChildSpec, ChildStatus
from slipway.launcher import Launcher
from slipway.stack.identity import ProcessIdentity
from slipway.stack.ports import choose

_SLEEPER = "import time; time.sleep(120)"
# Says that it was told to stop, and when.
_POLITE = """
import signal, sys, time
def stop(*_):
    print(f"stopped at {time.monotonic_ns()}", flush=True)
    sys.exit(0)
signal.signal(signal.SIGTERM, stop)
print("up", flush=True)
time.sleep(120)
"""
_DEAF = """
import signal, time
signal.signal(signal.SIGTERM, signal.SIG_IGN)
print("up", flush=True)
time.sleep(120)
"""
# Answers 503 twice, and then 200.
_WEB = """
import http.server, sys
class Answers(http.server.BaseHTTPRequestHandler):
    asked = 0
    def do_GET(self):
        Answers.asked += 1
        self.send_response(200 if Answers.asked > 2 else 503)
        self.end_headers()
http.server.HTTPServer(("127.0.0.1", int(sys.argv[1])), Answers).serve_forever()
"""


def _spec(name: str, script: str, *arguments: str, **more: object) -> ChildSpec:
    return ChildSpec(name, (sys.executable, "-c", script, *arguments), **more)  # type: ignore[arg-type]


def _until(true: Callable[[], bool], within_s: float = 20) -> bool:
    deadline = time.monotonic() + within_s
    while not true():
        if time.monotonic() > deadline:
            return False
        time.sleep(0.02)
    return True


def _launcher(log_dir: Path, *specs: ChildSpec, said: list[str] | None = None) -> Launcher:
    return Launcher(specs, log_dir=log_dir, announce=(said if said is not None else []).append)


def _only(launcher: Launcher) -> ChildStatus:
    (status,) = launcher.status()
    return status


def test_a_child_is_started_logged_and_stopped_politely(tmp_path: Path) -> None:
    with _launcher(tmp_path, _spec("polite", _POLITE, env={"COLOUR": "blue"})) as launcher:
        assert _only(launcher).phase is ChildPhase.STOPPED
        pid = launcher.start("polite")
        assert launcher.start("polite") == pid == launcher.pid("polite")
        assert _until(lambda: "up" in launcher.log("polite").read_text())
        assert b"COLOUR=blue" in Path(f"/proc/{pid}/environ").read_bytes().split(b"\0")
        launcher.stop("polite")

        assert "stopped at" in launcher.log("polite").read_text()
        assert _only(launcher) == ChildStatus(
            "polite", ChildPhase.STOPPED, None, 0, 0, tmp_path / "polite.log"
        )
    assert ProcessIdentity.of(pid) is None


def test_the_deaf_are_killed_after_their_grace(tmp_path: Path) -> None:
    with _launcher(tmp_path, _spec("deaf", _DEAF, stop_grace_s=0.2)) as launcher:
        launcher.start("deaf")
        assert _until(lambda: "up" in launcher.log("deaf").read_text())
        launcher.stop("deaf")
        assert _only(launcher).exit_code == -signal.SIGKILL


def test_what_crashes_is_started_again_and_counted(tmp_path: Path) -> None:
    said: list[str] = []
    with _launcher(tmp_path, _spec("sleeper", _SLEEPER), said=said) as launcher:
        first = launcher.start("sleeper")
        launcher.kill("sleeper")
        assert _until(lambda: _only(launcher).phase is ChildPhase.RUNNING)

        status = _only(launcher)
        assert status.pid != first
        assert (status.restarts, status.exit_code) == (1, -signal.SIGKILL)
    assert any("sleeper ended with exit code -9" in line for line in said)


def test_what_is_killed_for_good_stays_down_until_it_is_started(tmp_path: Path) -> None:
    with _launcher(tmp_path, _spec("sleeper", _SLEEPER)) as launcher:
        launcher.start("sleeper")
        launcher.kill("sleeper", restart=False)
        time.sleep(1)
        assert _only(launcher).phase is ChildPhase.STOPPED
        with pytest.raises(ValueError, match="not running"):
            launcher.pid("sleeper")
        with pytest.raises(ChildFailed, match="sleeper is stopped"):
            launcher.wait_ready("sleeper")

        launcher.start("sleeper")
        assert _only(launcher).phase is ChildPhase.RUNNING


def test_ready_means_that_its_address_answers_200(tmp_path: Path) -> None:
    port = choose(["web"], {}, [])["web"]
    url = f"http://127.0.0.1:{port}/readyz"
    with _launcher(tmp_path, _spec("web", _WEB, str(port), ready_url=url)) as launcher:
        launcher.start("web")
        launcher.wait_ready("web", timeout_s=30)
        connection = http.client.HTTPConnection("127.0.0.1", port, timeout=5)
        connection.request("GET", "/")
        assert connection.getresponse().status == 200
        connection.close()


# Answers 200 with the number of its process.
_NAMED = """
import http.server, os, sys
class Answers(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        self.send_response(200)
        self.send_header("x-slipway-process", str(os.getpid()))
        self.end_headers()
http.server.HTTPServer(("127.0.0.1", int(sys.argv[1])), Answers).serve_forever()
"""


def test_the_answer_of_another_process_on_its_port_counts_for_nothing(tmp_path: Path) -> None:
    """Of two that want one port, the second is not ready because the first one answers."""
    port = choose(["web"], {}, [])["web"]
    url = f"http://127.0.0.1:{port}/readyz"
    specs = [_spec(name, _NAMED, str(port), ready_url=url, names_itself=True) for name in ("first", "second")]
    with _launcher(tmp_path, *specs) as launcher:
        launcher.start("first")
        launcher.wait_ready("first", timeout_s=60)
        launcher.start("second")
        with pytest.raises(ChildFailed, match=r"second keeps ending(.|\n)*Address already in use"):
            launcher.wait_ready("second", timeout_s=120)


def test_a_child_that_is_not_ready_in_time_is_named_with_its_log(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        url = f"http://127.0.0.1:{silent.getsockname()[1]}/"
        spec = _spec("late", "print('still loading', flush=True)\n" + _SLEEPER, ready_url=url)
        with _launcher(tmp_path, spec) as launcher:
            launcher.start("late")
            with pytest.raises(ChildFailed, match=r"late was not ready within 1 s(.|\n)*still loading"):
                launcher.wait_ready("late", timeout_s=1)


def test_a_child_that_keeps_ending_is_given_up_before_the_time_is_over(tmp_path: Path) -> None:
    with _launcher(tmp_path, _spec("broken", "raise SystemExit('no such model')")) as launcher:
        launcher.start("broken")
        with pytest.raises(ChildFailed, match=r"exit code 1(.|\n)*no such model"):
            launcher.wait_ready("broken", timeout_s=120)


def test_a_child_with_a_wrong_setting_is_not_started_again(tmp_path: Path) -> None:
    said: list[str] = []
    with _launcher(
        tmp_path, _spec("broken", "print('SLIPWAY_X=abc'); raise SystemExit(78)"), said=said
    ) as launcher:
        launcher.start("broken")
        with pytest.raises(ChildFailed, match=r"broken has a wrong setting(.|\n)*SLIPWAY_X=abc"):
            while True:
                launcher.wait_ready("broken", timeout_s=120)
        assert _until(lambda: bool(said))
        assert _only(launcher).restarts == 0
    assert "stays down" in said[0]


def test_those_that_outlive_others_stop_last(tmp_path: Path) -> None:
    specs = [_spec("api", _POLITE, outlives_others=True), _spec("node", _POLITE), _spec("worker", _POLITE)]
    with _launcher(tmp_path, *specs) as launcher:
        launcher.start_all()
        assert _until(lambda: all("up" in launcher.log(spec.name).read_text() for spec in specs))
    stopped = {spec.name: int(launcher.log(spec.name).read_text().rpartition(" ")[2]) for spec in specs}
    assert max(stopped, key=stopped.__getitem__) == "api"


def test_a_log_stays_within_its_cap(tmp_path: Path) -> None:
    talker = "import time\nfor _ in range(40): print('x' * 500_000, flush=True)\ntime.sleep(120)"
    with _launcher(tmp_path, _spec("talker", talker)) as launcher:
        launcher.start("talker")
        assert _until(lambda: (tmp_path / "talker.log.1").exists())
        assert _until(lambda: launcher.log("talker").stat().st_size < 8 * 1024 * 1024)


def test_a_failing_tend_is_said_and_tried_again(tmp_path: Path) -> None:
    from slipway.stack import StackError

    said: list[str] = []
    calls: list[int] = []

    def tend() -> None:
        calls.append(1)
        raise StackError(f"valkey is away ({len(calls)})")

    with Launcher([], log_dir=tmp_path, tend=tend, announce=said.append):
        assert _until(lambda: len(calls) >= 2)
    assert said[:2] == ["valkey is away (1)", "valkey is away (2)"]


_RUN = """
import sys
from pathlib import Path
from slipway.children import ChildSpec
from slipway.launcher import Launcher

specs = [ChildSpec("child", (sys.executable, "-c", sys.argv[2]), stop_grace_s=60)]
launcher = Launcher(specs, log_dir=Path(sys.argv[1]))
launcher.run(lambda: print(launcher.pid("child"), flush=True))
print("over", flush=True)
"""


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_run_stays_until_a_signal_and_stops_all(tmp_path: Path, number: signal.Signals) -> None:
    launcher = subprocess.Popen(
        [sys.executable, "-c", _RUN, str(tmp_path), _POLITE], stdout=subprocess.PIPE, text=True
    )
    with launcher:
        assert launcher.stdout is not None
        child = int(launcher.stdout.readline())
        assert _until(lambda: "up" in (tmp_path / "child.log").read_text())
        launcher.send_signal(number)
        assert launcher.stdout.read().splitlines() == ["stopping …", "over"]
    assert launcher.returncode == 0
    assert ProcessIdentity.of(child) is None
    assert "stopped at" in (tmp_path / "child.log").read_text()


def test_a_second_signal_kills_what_does_not_stop(tmp_path: Path) -> None:
    launcher = subprocess.Popen(
        [sys.executable, "-c", _RUN, str(tmp_path), _DEAF], stdout=subprocess.PIPE, text=True
    )
    with launcher:
        assert launcher.stdout is not None
        launcher.stdout.readline()
        assert _until(lambda: "up" in (tmp_path / "child.log").read_text())
        launcher.send_signal(signal.SIGINT)
        assert launcher.stdout.readline() == "stopping …\n"
        launcher.send_signal(signal.SIGINT)
        assert launcher.wait(20) == 0


def test_children_end_with_a_launcher_that_is_killed(tmp_path: Path) -> None:
    launcher = subprocess.Popen(
        [sys.executable, "-c", _RUN, str(tmp_path), _POLITE], stdout=subprocess.PIPE, text=True
    )
    with launcher:
        assert launcher.stdout is not None
        child = int(launcher.stdout.readline())
        os.kill(launcher.pid, signal.SIGKILL)
    assert _until(lambda: ProcessIdentity.of(child) is None)
