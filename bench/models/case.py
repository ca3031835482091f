"""A model with its rows, as somebody would bring it."""

import io
import json
import tarfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from registry.contract.datasets import DatasetKind
from registry.contract.recipes import Int8Options, Precision, Tolerances
from registry.contract.versions import DatasetRef, Framework, VersionContract
from slipway.client import Client


@dataclass(frozen=True, slots=True)
class Labelled:
    raw: bytes
    label: object


@dataclass(frozen=True, slots=True)
class Trial:
    """Another recipe, of which it is told whether it is accepted."""

    precision: Precision
    int8: Int8Options
    tolerances: Tolerances


@dataclass(frozen=True, slots=True)
class Case:
    """A model with its rows, and the static INT8 that somebody would try first. `others`: by name."""

    name: str
    files: dict[str, Path]
    contract: VersionContract
    calibration: Sequence[Labelled]
    validation: Sequence[Labelled]
    naive: Int8Options
    tolerances: Tolerances
    others: Mapping[str, Trial]
    framework: Framework = Framework.ONNX


def dataset(
    client: Client, name: str, kind: DatasetKind, rows: Sequence[Labelled], folder: Path
) -> DatasetRef:
    room = folder / name
    room.mkdir()
    with tarfile.open(room / "rows.tar", "w") as archive:
        for at, row in enumerate(rows):
            entry = tarfile.TarInfo(f"row-{at:05d}")
            entry.size = len(row.raw)
            archive.addfile(entry, io.BytesIO(row.raw))
    lines = [json.dumps({"key": f"row-{at:05d}", "label": row.label}) for at, row in enumerate(rows)]
    (room / "index.jsonl").write_text("\n".join(lines) + "\n")
    made = client.dataset(name, kind, "raw", {"rows.tar": room / "rows.tar"}, room / "index.jsonl", len(rows))
    return made.ref
