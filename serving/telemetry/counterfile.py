"""Counters of one (incarnation, worker, deployment, generation, arm) as int64 cells in a mapped file.

One gateway worker writes, the agent reads, also after the writer was killed. Form of the file:

    8 bytes magic, 4 bytes little-endian length of the header, the header (JSON, blanks behind it up to a
    multiple of 8), EXTRA_CELLS cells of bookkeeping, then the fields of `field_sizes(edges)` in their order.

The file appears under its name only when it is whole, with all its blocks reserved: a full disk shows
when a route is taken, never as a fault in the middle of a request.
"""

import contextlib
import mmap
import os
from collections.abc import Iterator
from dataclasses import dataclass
from enum import IntEnum
from pathlib import Path

import numpy as np
import numpy.typing as npt
import orjson
from pydantic import ValidationError

from registry.contract.counters import CounterEdges, Outcome, SparseCells, field_sizes
from registry.contract.identity import ArmId
from registry.contract.wire import Wire, sha256_of

MAGIC = b"SLIPCTR1"
EXTRA_CELLS = 8
SUFFIX = ".counters"
_CELL = 8


class Extra(IntEnum):
    """Cells outside the contract's layout.

    INFLIGHT: requests inside, which a reader counts as died once the writer is gone. EXPLICIT: requests
    that named this arm's version themselves; they are in no other cell.
    """

    INFLIGHT = 0
    EXPLICIT = 1


class CounterKey(Wire):
    """`version` is a label for people and no part of the key."""

    incarnation: str
    worker: int
    deployment: str
    generation: int
    arm: ArmId
    version: str = ""


class _Header(Wire):
    key: CounterKey
    edges: CounterEdges
    layout: str


@dataclass(frozen=True, slots=True)
class CounterSnapshot:
    """A copy of one file's cells. While the writer lives, cells of one request may be a moment apart."""

    key: CounterKey
    edges: CounterEdges
    fields: dict[str, npt.NDArray[np.int64]]
    inflight: int
    explicit: int

    def settled(self) -> "CounterSnapshot":
        """As it is when the writer was killed: what was inside has died."""
        fields = {name: cells.copy() for name, cells in self.fields.items()}
        fields["assigned"][0] += self.inflight
        fields[f"outcome.{Outcome.DIED.value}"][0] += self.inflight
        return CounterSnapshot(self.key, self.edges, fields, 0, self.explicit)

    def sparse(self) -> dict[str, SparseCells]:
        """The fields that have a non-zero cell, in the form of a report."""
        found: dict[str, SparseCells] = {}
        for name, cells in self.fields.items():
            at = np.flatnonzero(cells)
            if at.size:
                found[name] = SparseCells(at=tuple(at.tolist()), n=tuple(cells[at].tolist()))
        return found


class CounterFile:
    """The writer's side. `cells` is the whole array behind the header; `base` gives a field's first cell.

    Made by `create`, or by `unbacked` where the disk takes no more.
    """

    def __init__(
        self, key: CounterKey, edges: CounterEdges, cells: memoryview, mapped: mmap.mmap | None
    ) -> None:
        self.key = key
        self.edges = edges
        self.cells = cells
        self._mapped = mapped
        self._base: dict[str, int] = {}
        at = EXTRA_CELLS
        for name, size in field_sizes(edges).items():
            self._base[name] = at
            at += size

    @classmethod
    def create(cls, path: Path, key: CounterKey, edges: CounterEdges) -> "CounterFile":
        """Goes on with a file that is there already, of the same key and layout; what was inside has died.

        Raises OSError: the disk is full or can't be written.
        """
        header = _header_bytes(key, edges)
        before = read(path)
        if before is None or before.key != key or before.edges != edges:
            _write_whole(path, header, _cell_count(edges) * _CELL)
            before = None
        with path.open("r+b") as file:
            mapped = mmap.mmap(file.fileno(), 0)
        counters = cls(key, edges, memoryview(mapped)[len(header) :].cast("q"), mapped)
        if before is not None and before.inflight:
            counters.add("assigned", 0, before.inflight)
            counters.add(f"outcome.{Outcome.DIED.value}", 0, before.inflight)
            counters.cells[Extra.INFLIGHT] = 0
        return counters

    @classmethod
    def unbacked(cls, key: CounterKey, edges: CounterEdges) -> "CounterFile":
        """Counts in this process's memory only, so that requests go on; no reader will see it."""
        return cls(key, edges, memoryview(bytearray(_cell_count(edges) * _CELL)).cast("q"), None)

    @property
    def backed(self) -> bool:
        return self._mapped is not None

    def base(self, field: str) -> int:
        """Raises KeyError for a field that the edges don't have."""
        return self._base[field]

    def add(self, field: str, cell: int = 0, n: int = 1) -> None:
        self.cells[self._base[field] + cell] += n

    def close(self) -> None:
        """Unmaps; the file stays for its reader. May be called twice."""
        if self._mapped is not None:
            self.cells.release()
            # A memoryview that somebody still holds keeps the mapping until it is let go.
            with contextlib.suppress(BufferError):
                self._mapped.close()
            self._mapped = None
            self.cells = memoryview(bytearray(_cell_count(self.edges) * _CELL)).cast("q")


def counter_path(state: Path, key: CounterKey) -> Path:
    """Where the file of this key lies below a node's state directory."""
    deployment = key.deployment.replace("/", "~")
    folder = state / "counters" / key.incarnation / str(key.worker) / deployment / str(key.generation)
    return folder / f"{key.arm}{SUFFIX}"


def find(state: Path, incarnation: str | None = None) -> Iterator[Path]:
    """All counter files of a node, or those of one incarnation, in a stable order."""
    folder = state / "counters" / incarnation if incarnation else state / "counters"
    yield from sorted(folder.rglob(f"*{SUFFIX}"))


def read(path: Path) -> CounterSnapshot | None:
    """None where there is no file, or one that is cut off or has a layout that this program doesn't know."""
    try:
        data = path.read_bytes()
    except OSError:
        return None
    if len(data) < len(MAGIC) + 4 or not data.startswith(MAGIC):
        return None
    start = len(MAGIC) + 4 + int.from_bytes(data[len(MAGIC) : len(MAGIC) + 4], "little")
    try:
        header = _Header.model_validate_json(data[len(MAGIC) + 4 : start])
    except ValidationError:
        return None
    if header.layout != _layout(header.edges) or len(data) != start + _cell_count(header.edges) * _CELL:
        return None
    cells = np.frombuffer(data, dtype=np.int64, offset=start)
    fields: dict[str, npt.NDArray[np.int64]] = {}
    at = EXTRA_CELLS
    for name, size in field_sizes(header.edges).items():
        fields[name] = cells[at : at + size]
        at += size
    return CounterSnapshot(
        header.key, header.edges, fields, int(cells[Extra.INFLIGHT]), int(cells[Extra.EXPLICIT])
    )


def _cell_count(edges: CounterEdges) -> int:
    return EXTRA_CELLS + sum(field_sizes(edges).values())


def _layout(edges: CounterEdges) -> str:
    return sha256_of({"extra": EXTRA_CELLS, "fields": list(field_sizes(edges).items())})


def _header_bytes(key: CounterKey, edges: CounterEdges) -> bytes:
    text = orjson.dumps(_Header(key=key, edges=edges, layout=_layout(edges)).model_dump(mode="json"))
    text += b" " * (-(len(MAGIC) + 4 + len(text)) % _CELL)
    return MAGIC + len(text).to_bytes(4, "little") + text


def _write_whole(path: Path, header: bytes, size: int) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    unfinished = path.with_suffix(".unfinished")
    descriptor = os.open(unfinished, os.O_RDWR | os.O_CREAT | os.O_TRUNC, 0o600)
    try:
        os.posix_fallocate(descriptor, 0, len(header) + size)
        os.pwrite(descriptor, header, 0)
    except OSError:
        unfinished.unlink(missing_ok=True)
        raise
    finally:
        os.close(descriptor)
    unfinished.replace(path)
