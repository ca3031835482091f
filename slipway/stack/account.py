"""Which operating-system account runs a server that refuses root, and what that account can reach."""

import os
import pwd
import subprocess
from dataclasses import dataclass
from pathlib import Path

from slipway.stack.errors import DataDirectoryUnreachable, StackError

_CANDIDATES = ("postgres", "nobody")
# Prints the first argument that can't be entered: the kernel's own answer, so that access lists count too.
_FIRST_CLOSED = 'for d in "$@"; do test -x "$d" || { printf %s "$d"; exit 0; }; done'


@dataclass(frozen=True)
class Account:
    """An unprivileged user and its primary group."""

    name: str
    uid: int
    gid: int


def server_account() -> Account | None:
    """The account that must run PostgreSQL, or None where this process may run it itself (is not root)."""
    if os.geteuid() != 0:
        return None
    for name in _CANDIDATES:
        try:
            entry = pwd.getpwnam(name)
        except KeyError:
            continue
        return Account(name, entry.pw_uid, entry.pw_gid)
    raise StackError(
        f"PostgreSQL refuses to run as root and none of the users {', '.join(_CANDIDATES)} exists. "
        "Start as an ordinary user, or set DATABASE_URL to a server of your own."
    )


def first_closed_directory(account: Account, path: Path) -> Path | None:
    """The topmost of `path` and its parents that `account` can't enter (or, for a file, execute)."""
    chain = [str(p) for p in reversed(path.parents)] + [str(path)]
    try:
        found = subprocess.run(
            ["/bin/sh", "-c", _FIRST_CLOSED, "sh", *chain],
            user=account.uid,
            group=account.gid,
            extra_groups=[],
            cwd="/",
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            check=True,
        )
    except (OSError, subprocess.SubprocessError) as error:
        raise StackError(
            f"can't run a program as {account.name} (uid {account.uid}), as PostgreSQL under root needs: "
            f"{error}. Start as an ordinary user, or set DATABASE_URL to a server of your own."
        ) from error
    return Path(found.stdout) if found.stdout else None


def require_reachable(account: Account, data_dir: Path) -> None:
    """Raises DataDirectoryUnreachable, naming the directory in the way, unless `account` can enter it."""
    closed = first_closed_directory(account, data_dir)
    if closed is not None:
        raise DataDirectoryUnreachable(
            f"the data directory {data_dir} is out of reach for the user {account.name}, who runs PostgreSQL "
            f"when you are root: {closed} can't be entered. Choose another place with "
            "SLIPWAY_DATA_DIR=/var/lib/slipway (or any directory outside a private home), or open it with: "
            f"chmod o+x '{closed}'"
        )
