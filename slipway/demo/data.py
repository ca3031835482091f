"""Writes the demo's files: data set shards, golden pairs, the directory that traffic is drawn from."""

import base64
import io
import json
import os
import subprocess
import sys
import tarfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from slipway.demo.assets import AssetError, Assets
from slipway.demo.files import Sample

RECORDER = Path(__file__).with_name("record.py")


@dataclass(frozen=True)
class Recorded:
    """What the training side says: `inputs` int32[N, 2048], `scores` float32[N, classes] where asked for."""

    keys: tuple[str, ...]
    inputs: NDArray[np.int32]
    scores: NDArray[np.float32] | None


def write_inputs(samples: Sequence[Sample], folder: Path) -> Path:
    """One raw file per sample, named by its key."""
    folder.mkdir(parents=True)
    for sample in samples:
        (folder / sample.key).write_bytes(sample.content)
    return folder


def record(assets: Assets, inputs: Path, output: Path, *, scores: bool) -> Recorded:
    """Runs the magika package's own code over a folder, in a process that has nothing of ours."""
    command = [sys.executable, str(RECORDER), str(inputs), str(output), *(["--scores"] if scores else [])]
    environment = {"PYTHONPATH": str(assets.package), "PATH": os.environ.get("PATH", "")}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    if done.returncode:
        raise AssetError(f"the magika package could not record its answers:\n{done.stderr.strip()[-2000:]}")
    with np.load(output) as found:
        return Recorded(
            keys=tuple(str(key) for key in found["keys"]),
            inputs=found["inputs"],
            scores=found["scores"] if scores else None,
        )


def write_raw_shard(samples: Sequence[Sample], path: Path) -> Path:
    """A tar with one member per row; the same samples always give the same bytes."""
    with tarfile.open(path, "w") as archive:
        for sample in sorted(samples, key=lambda each: each.key):
            member = tarfile.TarInfo(sample.key)
            member.size = len(sample.content)
            archive.addfile(member, io.BytesIO(sample.content))
    return path


def write_tensor_shard(recorded: Recorded, path: Path) -> Path:
    """An npz with the training side's own tensors."""
    np.savez(path, bytes=recorded.inputs, __key__=np.array(recorded.keys))
    return path


def write_index(samples: Sequence[Sample], split: str, path: Path) -> Path:
    """One JSON line per row."""
    rows = sorted(samples, key=lambda each: each.key)
    lines = (json.dumps({"key": row.key, "label": row.label, "split": split}) for row in rows)
    path.write_text("".join(f"{line}\n" for line in lines))
    return path


def _tensor(array: NDArray[np.generic]) -> dict[str, object]:
    dtype = {"int32": "INT32", "float32": "FP32"}[array.dtype.name]
    data = base64.b64encode(np.ascontiguousarray(array).tobytes()).decode()
    return {"dtype": dtype, "shape": list(array.shape), "data": data}


def write_golden(samples: Sequence[Sample], recorded: Recorded, labels: Sequence[str], path: Path) -> Path:
    """Golden pairs, one JSON line each: raw input → tensor → output → answer, all by the training code."""
    assert recorded.scores is not None
    by_key = {sample.key: sample for sample in samples}
    lines = []
    for at, key in enumerate(recorded.keys):
        scores = recorded.scores[at]
        best = int(scores.argmax())
        lines.append(
            json.dumps(
                {
                    "raw": base64.b64encode(by_key[key].content).decode(),
                    "inputs": {"bytes": _tensor(recorded.inputs[at : at + 1])},
                    "outputs": {"target_label": _tensor(recorded.scores[at : at + 1])},
                    "answer": {"label": labels[best], "score": float(scores[best])},
                }
            )
        )
    path.write_text("".join(f"{line}\n" for line in lines))
    return path
