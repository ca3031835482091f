"""Makes a worker environment with pip: once, whoever asks at the same time."""

import fcntl
import os
import shutil
import subprocess
import sys
import sysconfig
import venv
from pathlib import Path

from builder.environments.environment import (
    STAMP,
    Environment,
    find,
    folder_of,
    python_of,
    requirement_files,
    site_of,
)

# A name that sorts behind all others: the environment's own packages come first.
LAYER = "zz-base.pth"


class EnvironmentFailed(Exception):
    """It could not be made. The text says what to do."""


def make(name: str) -> Environment:
    """The environment, made now if it is not there. Raises UnknownEnvironment and EnvironmentFailed."""
    folder = folder_of(name)
    folder.parent.mkdir(parents=True, exist_ok=True)
    with (folder.parent / f".{folder.name}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        found = find(name)
        if found is not None:
            return found
        shutil.rmtree(folder, ignore_errors=True)
        venv.create(folder, symlinks=True)
        _layer(folder)
        for file in requirement_files(name):
            _install(folder, file)
        if name == "torch":
            refuse_cuda(folder)
        (folder / STAMP).write_text(f"{name}\n")
    made = find(name)
    assert made is not None, "it was stamped a moment ago"
    return made


def _layer(folder: Path) -> None:
    """The base environment behind its own packages: what is there already is not installed again."""
    base = dict.fromkeys((sysconfig.get_path("purelib"), sysconfig.get_path("platlib")))
    lines = [f"import site; site.addsitedir({path!r})" for path in base]
    (site_of(folder) / LAYER).write_text("\n".join(lines) + "\n")


def _install(folder: Path, file: Path) -> None:
    hashed = "--hash=" in file.read_text()
    command = [str(python_of(folder)), "-m", "pip", "install", "--quiet", "--no-input", "--no-deps"]
    command += ["--disable-pip-version-check", *(["--require-hashes"] if hashed else []), "-r", str(file)]
    environ = {name: value for name, value in os.environ.items() if name not in ("PYTHONPATH", "PYTHONHOME")}
    done = subprocess.run(command, env=environ, capture_output=True, text=True, check=False)
    if done.returncode:
        raise EnvironmentFailed(
            f"pip could not install {file}:\n{done.stderr.strip()}\nWith no network, or behind a proxy, tell "
            "pip its index (PIP_INDEX_URL, HTTPS_PROXY) and run this again"
        )


def refuse_cuda(folder: Path) -> None:
    """Torch's CUDA build is gigabytes that no exporter needs, and it is installed without its libraries here.

    Raises EnvironmentFailed, and leaves nothing of such an environment.
    """
    code = "import runpy, sys; print(runpy.run_path(sys.argv[1])['cuda'])"
    version = site_of(folder) / "torch" / "version.py"
    found = subprocess.run(
        [sys.executable, "-I", "-c", code, str(version)], capture_output=True, text=True, check=False
    )
    if found.stdout.strip() != "None":
        shutil.rmtree(folder, ignore_errors=True)
        raise EnvironmentFailed(
            "pip chose a CUDA build of torch, and exporting needs the CPU build; tell pip where that wheel "
            "is (PIP_FIND_LINKS=FOLDER, or PyTorch's own index for CPU builds by PIP_EXTRA_INDEX_URL) and "
            "run this again"
        )
