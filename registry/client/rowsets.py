"""Rows packed as the shards and the index of a data set, and split by what they hold.

`source` of a row tells where it came from, and stays with it in the index: `file:NAME`, the data set that it
was taken of (`words@3`), or a mined disagreement (`disagreement:prod/ocr/releases/4`).
"""

import hashlib
import io
import tarfile
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

import numpy as np
import orjson

INDEX = "index.jsonl"
KEYS = "__key__"
SHARD_BYTES = 256 << 20

Half = Literal["calibration", "judging"]
HALVES: tuple[Half, ...] = ("calibration", "judging")


@dataclass(frozen=True, slots=True)
class RowEntry:
    """One line of an index. `label`: anything that JSON holds."""

    key: str
    label: Any = None
    split: str = ""
    source: str = ""

    def line(self) -> bytes:
        told = {"key": self.key, "label": self.label, "split": self.split, "source": self.source}
        return orjson.dumps({name: value for name, value in told.items() if value not in (None, "")}) + b"\n"


@dataclass(frozen=True, slots=True)
class Packed:
    shards: Mapping[str, Path]
    index: Path
    rows: int
    sources: Mapping[str, int] = field(default_factory=dict)


def pack(folder: Path, rows: Iterable[tuple[RowEntry, bytes]]) -> Packed:
    """Writes tar shards and the index into `folder`; equal rows in equal order give equal bytes.

    Raises ValueError for a key that comes twice, and where there is no row.
    """
    folder.mkdir(parents=True, exist_ok=True)
    shards: dict[str, Path] = {}
    seen: set[str] = set()
    sources: Counter[str] = Counter()
    with ExitStack() as opened, (folder / INDEX).open("wb") as index:
        room = 0
        archive: tarfile.TarFile | None = None
        for entry, raw in rows:
            if entry.key in seen:
                raise ValueError(f"the key {entry.key!r} comes twice; give every row a name of its own")
            seen.add(entry.key)
            if archive is None or room < len(raw):
                opened.close()
                name = f"rows-{len(shards):04d}.tar"
                shards[name] = folder / name
                archive, room = opened.enter_context(tarfile.open(folder / name, "w")), SHARD_BYTES
            member = tarfile.TarInfo(entry.key)
            member.size = len(raw)
            archive.addfile(member, io.BytesIO(raw))
            room -= len(raw)
            index.write(entry.line())
            sources[entry.source] += 1
    if not shards:
        raise ValueError("there is no row to pack; name files, or a folder that holds some")
    return Packed(shards, folder / INDEX, len(seen), dict(sources))


def of_files(files: Mapping[str, Path], labels: Mapping[str, Any]) -> Iterator[tuple[RowEntry, bytes]]:
    """A row per file, under its own path. Raises ValueError for a label of no file."""
    strange = sorted(labels.keys() - files.keys())
    if strange:
        raise ValueError(f"there are labels for {', '.join(strange[:5])}, and no such files")
    for name, path in files.items():
        yield RowEntry(name, labels.get(name), source=f"file:{name}"), path.read_bytes()


def read_index(path: Path) -> dict[str, RowEntry]:
    found: dict[str, RowEntry] = {}
    with path.open("rb") as lines:
        for line in lines:
            if line.strip():
                told = orjson.loads(line)
                key = str(told["key"])
                found[key] = RowEntry(
                    key, told.get("label"), str(told.get("split") or ""), str(told.get("source") or "")
                )
    return found


def half_of(content: bytes) -> Half:
    """By the content alone: equal inputs are in one half, whatever they are called and in whichever set."""
    return HALVES[hashlib.sha256(content).digest()[0] & 1]


def halve_raw(
    shards: Iterable[Path], index: Mapping[str, RowEntry], half: Half, source: str
) -> Iterator[tuple[RowEntry, bytes]]:
    """The rows of one half, with where they came from."""
    for shard in shards:
        with tarfile.open(shard, "r|*") as archive:
            for member in archive:
                stream = archive.extractfile(member) if member.isreg() else None
                if stream is None:
                    continue
                raw = stream.read()
                if half_of(raw) == half:
                    was = index[member.name]
                    yield RowEntry(was.key, was.label, half, was.source or source), raw


def halve_tensors(
    shards: Mapping[str, Path], index: Mapping[str, RowEntry], half: Half, source: str, folder: Path
) -> Packed:
    """As `halve_raw`, for npz shards, which are written beside their new index. Raises ValueError where no
    row is of the half."""
    folder.mkdir(parents=True, exist_ok=True)
    made: dict[str, Path] = {}
    rows: list[RowEntry] = []
    for name, path in shards.items():
        with np.load(path, allow_pickle=False) as shard:
            arrays = {one: shard[one] for one in shard.files}
        kept = [at for at in range(len(arrays[KEYS])) if half_of(_content(arrays, at)) == half]
        if not kept:
            continue
        np.savez(folder / Path(name).name, allow_pickle=False, **{one: a[kept] for one, a in arrays.items()})
        made[Path(name).name] = folder / Path(name).name
        for key in arrays[KEYS][kept]:
            was = index[str(key)]
            rows.append(RowEntry(was.key, was.label, half, was.source or source))
    if not rows:
        raise ValueError(f"no row falls into the half for {half}; the set is too small to be split")
    (folder / INDEX).write_bytes(b"".join(row.line() for row in rows))
    return Packed(made, folder / INDEX, len(rows), dict(Counter(row.source for row in rows)))


def _content(arrays: Mapping[str, Any], at: int) -> bytes:
    return b"".join(arrays[name][at].tobytes() for name in sorted(arrays) if name != KEYS)
