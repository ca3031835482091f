"""Where code that came with a model may run: what stands before its command, and whether this machine can.

The walls themselves are built by `builder.walls`, a program of its own.
"""

import functools
import os
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
# All of ours that a step imports: not the folder around them, which may hold a service's data and secrets.
SOURCES = (ROOT / "builder", ROOT / "registry", ROOT / "serving")
PROBE_S = 60.0


def prefix(read: Sequence[Path], write: Path, parent: int) -> tuple[str, ...]:
    """Words that stand before a command. It sees `read` and this interpreter, changes only what is under
    `write`, begins there, and ends when the process `parent` does."""
    words = [sys.executable, "-P", "-m", "builder.walls", "--parent", str(parent)]
    words += ["--write", str(write.resolve())]
    for path in (*_interpreter(), *read):
        words += ["--read", str(path.resolve())]
    return (*words, "--")


@functools.cache
def refusal() -> str:
    """Why no command can be sandboxed on this machine; empty when one can."""
    with tempfile.TemporaryDirectory(prefix="slipway-probe-") as room:
        probe = subprocess.run(
            [*prefix((), Path(room), os.getpid()), sys.executable, "-I", "-S", "-c", "print('behind walls')"],
            capture_output=True,
            text=True,
            check=False,
            timeout=PROBE_S,
            env={},
        )
    if probe.returncode == 0 and probe.stdout == "behind walls\n":
        return ""
    last = (probe.stderr.strip().splitlines() or [f"exit code {probe.returncode}"])[-1]
    return (
        f"this machine gives a sandbox no namespaces of its own ({last}); allow unprivileged user namespaces "
        "(sysctl user.max_user_namespaces, kernel.apparmor_restrict_unprivileged_userns=0; for a container a "
        "seccomp profile that allows unshare and mount)"
    )


def _interpreter() -> tuple[Path, ...]:
    return (Path(sys.base_prefix), Path(sys.prefix), *SOURCES)
