"""What a hostile program can do behind the walls: nothing outside of its room."""

import os
import pickle
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import psutil
import pytest

from builder.isolation import sandbox

ENVIRONMENT = {"PATH": os.environ["PATH"], "SLIPWAY_TOKEN": "secret"}

ASKING = "from builder.isolation import sandbox; print(repr(sandbox.refusal()))"


class Hostile:
    """Runs `code` when it is unpickled."""

    def __init__(self, code: str) -> None:
        self.code = code

    def __reduce__(self) -> tuple[object, tuple[str, dict[str, object]]]:
        return exec, (self.code, {})


def room(tmp_path: Path) -> Path:
    found = tmp_path / "room"
    found.mkdir()
    return found


def unpickled(tmp_path: Path, code: str, timeout_s: float = 60) -> subprocess.CompletedProcess[str]:
    """A pickle that runs `code`, loaded in the sandbox."""
    bad = tmp_path / "model.pkl"
    bad.write_bytes(pickle.dumps(Hostile(code)))
    loading = f"import pickle; pickle.load(open({str(bad)!r}, 'rb'))"
    return subprocess.run(
        [*sandbox.prefix([bad], room(tmp_path), os.getpid()), sys.executable, "-c", loading],
        capture_output=True,
        text=True,
        check=False,
        timeout=timeout_s,
        env=ENVIRONMENT,
    )


def test_a_file_is_written_nowhere_but_in_the_room(tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    outside.mkdir(mode=0o777)
    outside.chmod(0o777)
    places = [outside / "x", Path("/x"), Path("/usr/x"), Path("/etc/x"), sandbox.ROOT / "builder" / "x"]
    code = (
        "written = []\n"
        f"for place in {[str(place) for place in places]!r}:\n"
        "    try: open(place, 'w').write('here'); written.append(place)\n"
        "    except OSError as error: pass\n"
        "open('mine', 'w').write('here')\n"
        "open('/tmp/scratch', 'w').write('here')\n"
        "print(written)"
    )
    ended = unpickled(tmp_path, code)
    assert ended.stdout == "[]\n", ended
    assert not any(place.exists() for place in places)
    assert (tmp_path / "room" / "mine").read_text() == "here"
    assert not Path("/tmp/scratch").exists()


def test_nothing_of_this_machine_is_to_be_read(tmp_path: Path) -> None:
    secret = tmp_path / "secret"
    secret.write_text("secret")
    code = (
        "import os\n"
        f"print(os.path.exists({str(secret)!r}), os.path.exists('/etc/passwd'))\n"
        "print('SLIPWAY_TOKEN' in os.environ, os.getuid() != 0)\n"
        "print([name for name in os.listdir('/proc') if name.isdigit() and int(name) > 2])"
    )
    ended = unpickled(tmp_path, code)
    assert ended.stdout == "False False\nFalse True\n[]\n", ended


def test_a_socket_reaches_nobody(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        server.settimeout(0.2)
        port = server.getsockname()[1]
        code = (
            "import socket\n"
            "try: socket.create_connection(('127.0.0.1', " + str(port) + "), 2); print('reached')\n"
            "except OSError as error: print('nobody')"
        )
        assert unpickled(tmp_path, code).stdout == "nobody\n"
        with pytest.raises(TimeoutError):
            server.accept()


def test_a_fork_bomb_ends_with_the_sandbox(tmp_path: Path) -> None:
    code = (
        "import os, time\n"
        "count = 0\n"
        "try:\n"
        "    while True:\n"
        "        if os.fork() == 0: os.setsid(); time.sleep(600)\n"
        "        count += 1\n"
        "except OSError: print(count)\n"
    )
    before = {process.pid for process in psutil.process_iter()}
    ended = unpickled(tmp_path, code)
    assert 0 < int(ended.stdout) < 1024, ended
    left = [
        process
        for process in psutil.process_iter()
        if process.pid not in before and str(tmp_path) in " ".join(_words(process))
    ]
    assert left == []


def _words(process: psutil.Process) -> list[str]:
    try:
        return list(process.cmdline())
    except psutil.Error:
        return []


def test_no_new_walls_and_no_rights_inside(tmp_path: Path) -> None:
    code = (
        "import ctypes, os\n"
        "c = ctypes.CDLL(None)\n"
        "print(c.unshare(0x10000000), c.mount(b'none', b'/tmp', b'tmpfs', 0, None))\n"
        "try: os.kill(1, 9); print('killed')\n"
        "except PermissionError: print('not allowed')"
    )
    ended = unpickled(tmp_path, code)
    assert ended.returncode == 0, ended
    assert ended.stdout.startswith("-1 -1\n")


def test_the_exit_code_and_the_crash_come_out(tmp_path: Path) -> None:
    assert unpickled(tmp_path, "raise SystemExit(7)").returncode == 7
    (tmp_path / "room").rmdir()
    crashed = unpickled(tmp_path, "import ctypes; ctypes.string_at(0)")
    assert crashed.returncode == 128 + signal.SIGSEGV


@pytest.mark.parametrize("ms", [0, 20, 40, 60, 80, 120, 400])
def test_it_ends_with_the_process_that_wanted_it(tmp_path: Path, ms: int) -> None:
    """However far it has come by then."""
    mark = f"sleeps-{tmp_path.name}-{os.getpid()}"
    inner = [
        *sandbox.prefix((), room(tmp_path), 0),
        sys.executable,
        "-c",
        "import time; time.sleep(600)",
        mark,
    ]
    starting = (
        "import os, subprocess, sys, time\n"
        f"words = {inner!r}\n"
        "words[words.index('--parent') + 1] = str(os.getpid())\n"
        "subprocess.Popen(words); time.sleep(600)"
    )
    worker = subprocess.Popen([sys.executable, "-c", starting], env=ENVIRONMENT)

    def sleeping() -> bool:
        return any(mark in _words(process)[-1:] for process in psutil.process_iter())

    _until(sleeping)
    time.sleep(ms / 1000)
    worker.kill()
    worker.wait(10)
    _until(lambda: not sleeping())


def _until(found: Callable[[], bool]) -> None:
    end = time.monotonic() + 60
    while not found():
        assert time.monotonic() < end
        time.sleep(0.05)


def test_a_parent_that_is_not_there_starts_nothing(tmp_path: Path) -> None:
    words = [*sandbox.prefix((), room(tmp_path), 1), sys.executable, "-c", "print('ran')"]
    ended = subprocess.run(words, capture_output=True, text=True, check=False, env=ENVIRONMENT)
    assert (ended.returncode, ended.stdout) == (126, "")


def test_without_namespaces_it_says_why_and_what_to_do() -> None:
    """In a namespace of its own that allows no further ones, as many containers are."""
    asking = (
        "from builder.isolation import launch, sandbox\n"
        "from builder.frontends.plan import Format, Plan\n"
        "from builder.steps.step import Refused\n"
        "print(sandbox.refusal())\n"
        "try: launch.place_of(Plan(Format.SKLEARN_PICKLE, 'model.pkl', 'trees'), allow_code=True)\n"
        "except Refused as refused: print('refused:', refused)\n"
        "print(launch.place_of(Plan(Format.LIGHTGBM_TEXT, 'model.txt', 'trees'), allow_code=True))"
    )
    closing = 'echo 0 > /proc/sys/user/max_user_namespaces && exec "$@"'
    words = ["unshare", "--user", "--map-user=1000", "--keep-caps", "sh", "-c", closing, "sh"]
    ended = subprocess.run(
        [*words, sys.executable, "-c", asking], capture_output=True, text=True, check=False, env=ENVIRONMENT
    )
    why, refused, place = ended.stdout.splitlines()
    assert "gives a sandbox no namespaces of its own ([Errno 28] unshare" in why
    assert "max_user_namespaces" in why
    assert refused.startswith("refused: model.pkl is a format that executes code")
    assert "so it is not run here" in refused
    assert place == "Place(environment='trees', walled=False)"


def test_another_failure_is_told_as_what_it_is(tmp_path: Path) -> None:
    """Namespaces are not blamed for a program that isn't there."""
    ended = subprocess.run(
        [*sandbox.prefix((), room(tmp_path), os.getpid()), "/no/such/python"],
        capture_output=True,
        text=True,
        check=False,
        env=ENVIRONMENT,
    )
    said = sandbox.why_not(ended.returncode, ended.stderr)
    assert said.startswith("this machine can't run a sandbox: /no/such/python can't be begun")
    assert "namespaces" not in said


def test_a_container_without_a_nobody_is_told_as_that() -> None:
    """Root's sandboxes run as nobody, who has no number where root alone has one."""
    ended = subprocess.run(
        ["unshare", "--user", "--map-root-user", sys.executable, "-c", ASKING],
        capture_output=True,
        text=True,
        check=False,
        env=ENVIRONMENT,
        cwd=sandbox.ROOT,
    )
    assert "this machine can't run a sandbox: nobody (65534) can't own its room" in ended.stdout, ended
    assert "namespaces" not in ended.stdout


def test_a_machine_that_allows_less_than_the_ceiling_has_a_sandbox(tmp_path: Path) -> None:
    """The sandbox takes what there is of open files; it doesn't ask for more than it may have."""
    ended = subprocess.run(
        ["sh", "-c", f"ulimit -n 256; exec {sys.executable} -c '{ASKING}'"],
        capture_output=True,
        text=True,
        check=False,
        env=ENVIRONMENT,
        cwd=sandbox.ROOT,
    )
    assert ended.stdout == "''\n", ended
