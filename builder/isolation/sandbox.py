"""Where code that came with a model may run: what stands before its command, and whether this machine can.

The walls themselves are built by `builder.isolation.walls`, a program of its own.
"""

import functools
import os
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from builder.isolation.walls import NO_NAMESPACES, NOT_BUILT

ROOT = Path(__file__).resolve().parents[2]
# All of ours that a step imports: not the folder around them, which may hold a service's data and secrets.
SOURCES = (ROOT / "builder", ROOT / "registry", ROOT / "serving")
PROBE_S = 60.0
SAID = "behind walls"


def prefix(read: Sequence[Path], write: Path, parent: int) -> tuple[str, ...]:
    """Words that stand before a command. It sees `read` and this interpreter, changes only what is under
    `write`, begins there, and ends when the process `parent` does."""
    words = [sys.executable, "-P", "-m", "builder.isolation.walls", "--parent", str(parent)]
    words += ["--write", str(write.resolve())]
    for path in (*_interpreter(), *read):
        words += ["--read", str(path.resolve())]
    return (*words, "--")


@functools.cache
def refusal() -> str:
    """Why no command can be sandboxed on this machine; empty when one can."""
    with tempfile.TemporaryDirectory(prefix="slipway-probe-") as room:
        try:
            probe = subprocess.run(
                [*prefix((), Path(room), os.getpid()), sys.executable, "-I", "-S", "-c", f"print('{SAID}')"],
                capture_output=True,
                text=True,
                check=False,
                timeout=PROBE_S,
                env={},
            )
        except subprocess.TimeoutExpired:
            return f"a sandbox did not begin here within {PROBE_S:g} s; start the worker again when less runs"
    if probe.returncode == 0 and probe.stdout == f"{SAID}\n":
        return ""
    return why_not(probe.returncode, probe.stderr)


def why_not(code: int, errors: str) -> str:
    """Why what `prefix` stands before did not run, from its exit code and what it wrote."""
    last = (errors.strip().splitlines() or [f"exit code {code}"])[-1]
    if code == NOT_BUILT and last.startswith(NO_NAMESPACES):
        return (
            f"this machine gives a sandbox no namespaces of its own ({last.removeprefix(NO_NAMESPACES)}); "
            "allow unprivileged user namespaces (sysctl user.max_user_namespaces, "
            "kernel.apparmor_restrict_unprivileged_userns=0; for a container a seccomp profile that allows "
            "unshare and mount)"
        )
    said = last.removeprefix("walls: ")
    return f"this machine can't run a sandbox: {said}"


def _interpreter() -> tuple[Path, ...]:
    return (Path(sys.base_prefix), Path(sys.prefix), *SOURCES)
