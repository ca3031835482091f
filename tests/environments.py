"""Python environments beside our own, for programs that we test against and don't depend on.

Each is made on demand from `requirements/<name>.txt` (a complete lock with hashes) and kept in the ignored
folder .cache, under the hash of that file and of the interpreter.
"""

import fcntl
import hashlib
import shutil
import subprocess
import sys
from pathlib import Path

from builder.environments.environment import Environment, home
from builder.environments.make import make

ROOT = Path(__file__).resolve().parents[1]
LIMIT_S = 1800


class EnvironmentFailed(Exception):
    """It could not be made; the message is the installer's."""


def environment(name: str) -> Path:
    """The python of the environment `name`, which is made where it is missing (minutes, once).

    Raises EnvironmentFailed. Processes that ask at the same time wait for the one that makes it.
    """
    lock = ROOT / "requirements" / f"{name}.txt"
    key = hashlib.sha256(lock.read_bytes() + sys.version.encode() + sys.base_prefix.encode()).hexdigest()[:16]
    made = home() / f"{name}-{key}"
    home().mkdir(parents=True, exist_ok=True)
    with (home() / f"{name}.lock").open("w") as turn:
        fcntl.flock(turn, fcntl.LOCK_EX)
        if not (made / "complete").exists():
            shutil.rmtree(made, ignore_errors=True)
            _make(made, lock)
            (made / "complete").touch()
    return made / "bin" / "python"


def _make(made: Path, lock: Path) -> None:
    _run(sys.executable, "-m", "venv", str(made))
    # The lock is complete, so that pip has nothing to resolve; what it leaves out is left out on purpose.
    pip = (str(made / "bin" / "python"), "-m", "pip", "install", "--quiet", "--no-input", "--no-compile")
    _run(*pip, "--disable-pip-version-check", "--no-deps", "--require-hashes", "-r", str(lock))


def _run(*command: str) -> None:
    ended = subprocess.run(command, capture_output=True, text=True, timeout=LIMIT_S, check=False)
    if ended.returncode:
        raise EnvironmentFailed(
            f"{' '.join(command[:5])} … ended with {ended.returncode}: {ended.stderr[-2000:]}"
        )


def worker(name: str) -> Environment:
    """A worker environment (`requirements/workers/<name>.txt`), made where it is missing, as `./run worker`
    makes it. Raises builder.environments.make.EnvironmentFailed."""
    return make(name)
