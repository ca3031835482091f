"""Real input: the files of this machine's Python installation, labelled by their extensions."""

import hashlib
import random
import sys
import sysconfig
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

LABELS = {
    ".a": "coff",
    ".c": "c",
    ".cc": "cpp",
    ".cpp": "cpp",
    ".css": "css",
    ".csv": "csv",
    ".exe": "pebin",
    ".f": "fortran",
    ".f90": "fortran",
    ".gif": "gif",
    ".gz": "gzip",
    ".h": "c",
    ".hpp": "cpp",
    ".html": "html",
    ".ini": "ini",
    ".js": "javascript",
    ".json": "json",
    ".md": "markdown",
    ".npy": "npy",
    ".npz": "npz",
    ".onnx": "onnx",
    ".pem": "pem",
    ".png": "png",
    ".ps1": "powershell",
    ".proto": "proto",
    ".py": "python",
    ".pyc": "pythonbytecode",
    ".pyi": "python",
    ".rst": "rst",
    ".sh": "shell",
    ".so": "elf",
    ".sql": "sql",
    ".svg": "svg",
    ".toml": "toml",
    ".txt": "txt",
    ".wav": "wav",
    ".xml": "xml",
    ".zip": "zip",
}
# Without a cap nine files of ten would be Python.
PER_LABEL = 400
SMALLEST, LARGEST = 64, 256 * 1024


@dataclass(frozen=True)
class Sample:
    """`key` is the sha256 of the content: the same file twice is one sample."""

    key: str
    label: str
    content: bytes


@dataclass(frozen=True)
class Samples:
    """Disjoint by content hash."""

    calibration: tuple[Sample, ...]
    validation: tuple[Sample, ...]
    golden: tuple[Sample, ...]
    traffic: tuple[Sample, ...]


def _candidates() -> Iterator[Path]:
    roots = dict.fromkeys([sysconfig.get_paths()["stdlib"], sysconfig.get_paths()["purelib"]])
    if sys.prefix != sys.base_prefix:
        roots[str(Path(sys.base_prefix) / "lib")] = None
    for root in roots:
        yield from sorted(Path(root).rglob("*"))


def collect(seed: int, validation: int, calibration: int, golden: int) -> Samples:
    """Drawn by `seed`; what is left over is traffic. The validation set is at most half of all."""
    by_label: dict[str, dict[str, Sample]] = defaultdict(dict)
    paths = [path for path in _candidates() if path.suffix in LABELS and not path.is_symlink()]
    random.Random(seed).shuffle(paths)
    for path in paths:
        label = LABELS[path.suffix]
        if len(by_label[label]) >= PER_LABEL:
            continue
        try:
            if not SMALLEST <= path.stat().st_size <= LARGEST:
                continue
            content = path.read_bytes()
        except OSError:
            continue
        key = hashlib.sha256(content).hexdigest()
        by_label[label].setdefault(key, Sample(key, label, content))
    everything = {key: sample for group in by_label.values() for key, sample in group.items()}
    drawn = sorted(everything.values(), key=lambda sample: sample.key)
    random.Random(seed).shuffle(drawn)
    validation = min(validation, len(drawn) // 2)
    cuts = (calibration, calibration + golden, calibration + golden + validation)
    return Samples(
        calibration=tuple(drawn[: cuts[0]]),
        golden=tuple(drawn[cuts[0] : cuts[1]]),
        validation=tuple(drawn[cuts[1] : cuts[2]]),
        traffic=tuple(drawn[cuts[1] :]),
    )
