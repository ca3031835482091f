"""The targets that this machine can run, best first: what a node tells the registry."""

from pathlib import Path

_CPU_FLAGS = {"avx512_vnni": "ort.cpu.avx512_vnni"}


def local_targets(cpuinfo: Path = Path("/proc/cpuinfo")) -> tuple[str, ...]:
    """Ends with `ort.cpu`, which every machine runs; before it what this CPU's extensions allow."""
    flags = _flags(cpuinfo)
    return (*(target for flag, target in _CPU_FLAGS.items() if flag in flags), "ort.cpu")


def _flags(cpuinfo: Path) -> frozenset[str]:
    """Of the first core; empty where the kernel doesn't tell."""
    try:
        text = cpuinfo.read_text()
    except OSError:
        return frozenset()
    for line in text.splitlines():
        name, _, value = line.partition(":")
        if name.strip() in ("flags", "Features"):
            return frozenset(value.split())
    return frozenset()
