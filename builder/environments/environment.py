"""Which worker environments there are, where they lie, and what is installed in them.

An environment is a virtual environment that sees the base environment's packages behind its own, so that it
holds the framework alone; where the two disagree about a version, its own wins.
"""

import hashlib
import os
import platform
import re
import sys
import sysconfig
from collections.abc import Iterable
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
REQUIREMENTS = ROOT / "requirements" / "workers"
# Written last: a folder without it was not finished.
STAMP = "made"
_NAMED = re.compile(r"^([A-Za-z0-9._-]+)==", re.MULTILINE)


class UnknownEnvironment(Exception):
    """No requirement file has this name. The text lists those that there are."""


@dataclass(frozen=True, slots=True)
class Environment:
    """One that is made. `versions`: what its requirement files name, as it is imported there."""

    name: str
    folder: Path
    versions: dict[str, str]

    @property
    def python(self) -> Path:
        return python_of(self.folder)


def names() -> tuple[str, ...]:
    """One for each lock in requirements/workers."""
    locks = (path.name.removesuffix(".txt") for path in REQUIREMENTS.glob("*.txt"))
    return tuple(sorted(name for name in locks if "." not in name))


def requirement_files(name: str) -> tuple[Path, ...]:
    """The lock, and the file of what can't be pinned by hash where there is one. Raises
    UnknownEnvironment."""
    if name not in names():
        raise UnknownEnvironment(
            f"there is no worker environment {name!r}; there are {', '.join(names()) or 'none'} "
            f"(one for each lock in {REQUIREMENTS})"
        )
    pinned = REQUIREMENTS / f"{name}.pinned.txt"
    return (REQUIREMENTS / f"{name}.txt", *((pinned,) if pinned.is_file() else ()))


def home() -> Path:
    """SLIPWAY_CACHE, or `.cache` beside the sources."""
    given = os.environ.get("SLIPWAY_CACHE")
    return (Path(given).resolve() if given else ROOT / ".cache") / "environments"


def folder_of(name: str) -> Path:
    """Where it belongs. Another lock, interpreter or base package makes another folder. Raises
    UnknownEnvironment."""
    files = requirement_files(name)
    digest = hashlib.sha256()
    for file in files:
        digest.update(file.read_bytes())
    base = _versions(_required(files), _base_paths())
    facts = [platform.python_version(), platform.machine(), sys.prefix, repr(sorted(base.items()))]
    digest.update("\0".join(facts).encode())
    return home() / f"{name}-{digest.hexdigest()[:16]}"


def find(name: str) -> Environment | None:
    """None where it is not made yet. Raises UnknownEnvironment."""
    folder = folder_of(name)
    if not (folder / STAMP).is_file():
        return None
    paths = (str(site_of(folder)), *_base_paths())
    return Environment(name, folder, _versions(_required(requirement_files(name)), paths))


def missing(name: str) -> str:
    """What to tell who needs it."""
    return f"this worker has no {name} environment; make it with `./run worker {name}` and build again"


def python_of(folder: Path) -> Path:
    return folder / "bin" / "python"


def site_of(folder: Path) -> Path:
    """Its own site-packages."""
    return Path(sysconfig.get_path("purelib", vars={"base": str(folder), "platbase": str(folder)}))


def _base_paths() -> tuple[str, ...]:
    return tuple(dict.fromkeys((sysconfig.get_path("purelib"), sysconfig.get_path("platlib"))))


def _required(files: Iterable[Path]) -> frozenset[str]:
    return frozenset(_plain(found) for file in files for found in _NAMED.findall(file.read_text()))


def _versions(wanted: frozenset[str], paths: Iterable[str]) -> dict[str, str]:
    """Of the wanted ones that are installed; the first path that has one counts."""
    found: dict[str, str] = {}
    for path in paths:
        for distribution in metadata.distributions(path=[path]):
            name = _plain(distribution.metadata["Name"])
            if name in wanted:
                found.setdefault(name, distribution.version)
    return dict(sorted(found.items()))


def _plain(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()
