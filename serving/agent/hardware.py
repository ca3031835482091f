"""Facts of this machine, as the kernel and the container's limits tell them."""

import os
from pathlib import Path

from registry.contract.nodes import Hardware

_TELLING = ("avx", "amx", "fma", "f16c", "sse4", "asimd", "sve", "bf16", "i8mm")
_GROUP = Path("/sys/fs/cgroup")


def hardware(cpuinfo: Path = Path("/proc/cpuinfo")) -> Hardware:
    """`cpu_features`: those that decide which engines run well here."""
    return Hardware(
        cores=len(os.sched_getaffinity(0)),
        memory_bytes=min(_machine("MemTotal"), _limit() or 1 << 62),
        cpu_features=_features(cpuinfo),
    )


def memory_free(group: Path = _GROUP) -> int:
    """Bytes that a new engine may take: what the machine has, within the container's limit."""
    free = _machine("MemAvailable")
    limit = _limit(group)
    if limit is None:
        return free
    return max(0, min(free, limit - _used(group)))


def _machine(name: str) -> int:
    """A line of /proc/meminfo in bytes."""
    for line in Path("/proc/meminfo").read_text().splitlines():
        if line.startswith(f"{name}:"):
            return int(line.split()[1]) * 1024
    return 0


def _limit(group: Path = _GROUP) -> int | None:
    try:
        return int((group / "memory.max").read_text())
    except (OSError, ValueError):
        return None


def _used(group: Path) -> int:
    """Without the page cache that the kernel gives back when it is asked to."""
    try:
        used = int((group / "memory.current").read_text())
        lines = (group / "memory.stat").read_text().splitlines()
    except (OSError, ValueError):
        return 0
    cache = next((int(line.split()[1]) for line in lines if line.startswith("inactive_file ")), 0)
    return max(0, used - cache)


def _features(cpuinfo: Path) -> tuple[str, ...]:
    try:
        lines = cpuinfo.read_text().splitlines()
    except OSError:
        return ()
    found = next((line for line in lines if line.split(":")[0].strip() in ("flags", "Features")), ":")
    return tuple(sorted(flag for flag in found.partition(":")[2].split() if flag.startswith(_TELLING)))
