"""pg_dump, pg_restore and psql: which ones fit a server, and running them with no password in sight."""

import os
import re
import shutil
import subprocess
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import psycopg
from psycopg.conninfo import conninfo_to_dict

from slipway.backup.errors import BackupError
from slipway.stack import StackError
from slipway.stack.binaries import postgres_install

NAMES = ("pg_dump", "pg_restore", "psql")
_VERSION = re.compile(r"\(PostgreSQL\) (\d+)")
_VARIABLES = {
    "host": "PGHOST",
    "hostaddr": "PGHOSTADDR",
    "port": "PGPORT",
    "user": "PGUSER",
    "password": "PGPASSWORD",
    "dbname": "PGDATABASE",
    "sslmode": "PGSSLMODE",
    "sslrootcert": "PGSSLROOTCERT",
    "sslcert": "PGSSLCERT",
    "sslkey": "PGSSLKEY",
    "options": "PGOPTIONS",
}


@dataclass(frozen=True)
class Programs:
    """Programs of one PostgreSQL installation, and the server that they speak to."""

    folder: Path
    database_url: str

    def argv(self, name: str, *arguments: str) -> list[str]:
        return [str(self.folder / name), *arguments]

    def environment(self) -> dict[str, str]:
        """How the programs find the server: a password in an argument would show in `ps`."""
        given = conninfo_to_dict(for_libpq(self.database_url))
        ours = {variable: str(given[name]) for name, variable in _VARIABLES.items() if given.get(name)}
        plain = {name: value for name, value in os.environ.items() if not name.startswith("PG")}
        return {**plain, **ours, "LC_ALL": "C"}

    def run(self, name: str, *arguments: str) -> None:
        """Raises BackupError with what the program said."""
        done = subprocess.run(
            self.argv(name, *arguments),
            env=self.environment(),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            check=False,
        )
        if done.returncode != 0:
            raise BackupError(f"{name} failed with exit code {done.returncode}: {done.stderr.strip()}")


def fitting(database_url: str, connection: psycopg.Connection, environ: Mapping[str, str]) -> Programs:
    """Of the installations here the oldest that is at least as new as the server. Raises BackupError."""
    server = connection.info.server_version // 10_000
    found = {folder: major for folder in _folders(environ) if (major := _major(folder)) is not None}
    fit = [folder for folder, major in sorted(found.items(), key=lambda each: each[1]) if major >= server]
    if not fit:
        has = ", ".join(f"{major} in {folder}" for folder, major in found.items()) or "none"
        raise BackupError(
            f"the server is PostgreSQL {server}, and pg_dump must be as new; found: {has}. Install "
            f"postgresql-client-{server}, or set SLIPWAY_POSTGRES_BIN to the directory of its programs."
        )
    return Programs(fit[0], database_url)


def _folders(environ: Mapping[str, str]) -> Iterator[Path]:
    chosen = environ.get("SLIPWAY_POSTGRES_BIN")
    if chosen:
        yield Path(chosen)
        return
    with suppress(StackError):
        yield postgres_install(environ) / "bin"
    yield from Path("/usr/lib/postgresql").glob("*/bin")
    found = shutil.which("pg_dump")
    if found:
        yield Path(found).parent


def _major(folder: Path) -> int | None:
    """None: not all of the programs are there."""
    if any(not os.access(folder / name, os.X_OK) for name in NAMES):
        return None
    said = subprocess.run(
        [str(folder / "pg_dump"), "--version"], capture_output=True, text=True, check=False
    ).stdout
    found = _VERSION.search(said)
    return int(found[1]) if found else None


def for_libpq(url: str) -> str:
    """SQLAlchemy's `postgresql+psycopg://…` as libpq reads it."""
    scheme, separator, rest = url.partition("://")
    return f"{scheme.partition('+')[0]}{separator}{rest}"
