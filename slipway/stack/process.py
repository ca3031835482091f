"""One child process: started with a clean environment and a log file, watched, stopped."""

import os
import signal
import subprocess
import time
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

from slipway.stack.account import Account
from slipway.stack.errors import StackError
from slipway.stack.identity import ProcessIdentity
from slipway.stack.reaper import Reaper


@dataclass(frozen=True)
class Command:
    """How to start a process. `account`: run as that user (root only). `stdin`: given, then closed."""

    name: str
    argv: tuple[str, ...]
    log: Path
    cwd: Path
    env: Mapping[str, str] = field(default_factory=dict)
    account: Account | None = None
    stdin: bytes | None = None
    stop_signal: signal.Signals = signal.SIGTERM


def clean_environment(home: Path) -> dict[str, str]:
    """What a server needs and nothing of ours: no secrets, no PG… or AWS… settings of the person's shell."""
    return {
        "PATH": os.environ.get("PATH", os.defpath),
        "HOME": str(home),
        "TMPDIR": str(home),
        "LC_ALL": "C",
        "TZ": "UTC",
    }


class Child:
    """A running process, known to the reaper from its first moment."""

    def __init__(self, command: Command, reaper: Reaper) -> None:
        self.command = command
        command.log.parent.mkdir(parents=True, exist_ok=True)
        account = command.account
        with command.log.open("ab") as log:
            try:
                self._popen = subprocess.Popen(
                    command.argv,
                    stdin=subprocess.PIPE if command.stdin is not None else subprocess.DEVNULL,
                    stdout=log,
                    stderr=subprocess.STDOUT,
                    cwd=command.cwd,
                    env=dict(command.env),
                    user=None if account is None else account.uid,
                    group=None if account is None else account.gid,
                    extra_groups=None if account is None else [],
                    # Ctrl-C goes to a terminal's whole group; the launcher alone stops its children.
                    start_new_session=True,
                )
            except OSError as error:
                raise StackError(f"can't start {command.name} ({command.argv[0]}): {error}") from error
        self.identity = ProcessIdentity.of(self._popen.pid)
        if self.identity is not None:
            reaper.watch(self.identity.pid, self.identity.ticks, command.stop_signal)
        if self._popen.stdin is not None:
            with suppress(BrokenPipeError):
                self._popen.stdin.write(command.stdin or b"")
                self._popen.stdin.flush()
            with suppress(BrokenPipeError):
                self._popen.stdin.close()

    @property
    def pid(self) -> int:
        """The process id."""
        return self._popen.pid

    @property
    def exit_code(self) -> int | None:
        """None while it runs; negative: the number of the signal that ended it."""
        return self._popen.poll()

    @property
    def alive(self) -> bool:
        """Whether it still runs."""
        return self._popen.poll() is None

    def stop(self, grace_s: float) -> int:
        """Asks it to stop, kills its whole process group after `grace_s` seconds; gives the exit code."""
        if self.alive:
            self._popen.send_signal(self.command.stop_signal)
            try:
                self._popen.wait(grace_s)
            except subprocess.TimeoutExpired:
                self.kill()
        return self._popen.wait()

    def kill(self) -> int:
        """SIGKILL to its process group, at once; gives the exit code."""
        if self.alive:
            with suppress(ProcessLookupError):
                os.killpg(self._popen.pid, signal.SIGKILL)
        return self._popen.wait()

    def wait(self, timeout_s: float) -> int | None:
        """Waits for its end; the exit code, or None when it still runs after `timeout_s` seconds."""
        try:
            return self._popen.wait(timeout_s)
        except subprocess.TimeoutExpired:
            return None


def pause_until(deadline: float, step_s: float = 0.03) -> bool:
    """Sleeps `step_s` seconds; False when `deadline` (monotonic seconds) has passed."""
    time.sleep(step_s)
    return time.monotonic() < deadline
