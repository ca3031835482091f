"""The one data directory: where it is, who owns it, and the lock that keeps it to one launcher."""

import fcntl
import hashlib
import os
import pwd
from collections.abc import Mapping
from pathlib import Path

from slipway.stack.account import Account, first_closed_directory, require_reachable, server_account
from slipway.stack.errors import DataDirectoryInUse, StackError

_OPEN_TO_PASS = 0o711
_LOCK_NAME = "launcher.lock"


def default_data_dir(environ: Mapping[str, str] | None = None) -> Path:
    """SLIPWAY_DATA_DIR, else ./.slipway/data.

    A checkout in root's private home is common and out of reach for the account that runs PostgreSQL under
    root; there the default is a directory of its own, by the checkout's path, under /var/lib/slipway.
    """
    chosen = (os.environ if environ is None else environ).get("SLIPWAY_DATA_DIR")
    if chosen:
        return Path(chosen).expanduser().absolute()
    here = Path.cwd()
    account = server_account()
    if account is not None and first_closed_directory(account, here) is not None:
        return Path("/var/lib/slipway") / hashlib.sha256(os.fsencode(here)).hexdigest()[:12] / "data"
    return here / ".slipway" / "data"


def default_log_dir(data_dir: Path) -> Path:
    """For the logs of what is not a server: `logs` beside a directory named `data`, else in it."""
    return (data_dir.parent if data_dir.name == "data" else data_dir) / "logs"


def prepare(data_dir: Path, account: Account | None) -> None:
    """Creates `data_dir` and checks that it is ours and, where PostgreSQL runs as `account`, reachable."""
    for missing in reversed([p for p in (data_dir, *data_dir.parents) if not p.exists()]):
        missing.mkdir(exist_ok=True)
        missing.chmod(_OPEN_TO_PASS)
    if not data_dir.is_dir():
        raise StackError(f"the data directory {data_dir} is a file. Remove it or choose another directory.")
    _require_ours(data_dir)
    if account is not None:
        data_dir.chmod(data_dir.stat().st_mode & 0o7777 | _OPEN_TO_PASS)
        require_reachable(account, data_dir)


def _require_ours(data_dir: Path) -> None:
    lock = data_dir / _LOCK_NAME
    witness = lock if lock.exists() else data_dir
    owner = witness.stat().st_uid
    fresh = witness is data_dir and os.geteuid() == 0
    if owner != os.geteuid() and not fresh:
        raise StackError(
            f"the data directory {data_dir} belongs to {_user_name(owner)}, and you are "
            f"{_user_name(os.geteuid())}. Start as {_user_name(owner)}, or choose another directory with "
            "SLIPWAY_DATA_DIR."
        )
    if not os.access(data_dir, os.R_OK | os.W_OK | os.X_OK):
        raise StackError(
            f"no permission to write in the data directory {data_dir}. Open it with: chmod u+rwx '{data_dir}'"
        )


def _user_name(uid: int) -> str:
    try:
        return pwd.getpwuid(uid).pw_name
    except KeyError:
        return f"uid {uid}"


class DirectoryLock:
    """An advisory lock on a data directory; the kernel drops it when its holder dies, however it dies."""

    def __init__(self, data_dir: Path) -> None:
        self._path = data_dir / _LOCK_NAME
        self._fd: int | None = None

    def acquire(self) -> None:
        """Takes the lock; raises DataDirectoryInUse naming the holder's process id."""
        fd = os.open(self._path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            holder = os.read(fd, 32).decode(errors="replace").strip() or "unknown"
            os.close(fd)
            raise DataDirectoryInUse(
                f"the data directory {self._path.parent} is in use by process {holder}. Stop that one first "
                f"(kill {holder}), or choose another directory with SLIPWAY_DATA_DIR."
            ) from None
        os.ftruncate(fd, 0)
        os.write(fd, f"{os.getpid()}\n".encode())
        self._fd = fd

    def release(self) -> None:
        """Gives the lock back; does nothing when it is not held."""
        if self._fd is not None:
            os.close(self._fd)
            self._fd = None
