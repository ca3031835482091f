"""Reading data sets: rows stream out of their shards, one at a time.

A data set lies in a folder: `dataset.json` (the registry's description), `index.jsonl` and its shards under
their own paths.
"""

import tarfile
import zipfile
from collections.abc import Container, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import orjson

from builder.steps.step import Refused
from registry.contract.datasets import Dataset

DESCRIPTION = "dataset.json"
INDEX = "index.jsonl"
KEYS = "__key__"
LARGEST_RAW_BYTES = 256 << 20

Array = npt.NDArray[Any]


@dataclass(frozen=True, slots=True)
class Row:
    """`raw` or `tensors` is given, by the data set's form; tensors have a batch axis of 1."""

    key: str
    label: str | None
    raw: bytes | None = None
    tensors: dict[str, Array] | None = None


def describe(folder: Path) -> Dataset:
    return Dataset.model_validate_json((folder / DESCRIPTION).read_bytes())


def read_labels(folder: Path) -> dict[str, str | None]:
    """Row key → label (numbers as text, lists and objects as JSON), in the index's order. Raises Refused on a
    line that is no row."""
    found: dict[str, str | None] = {}
    with (folder / INDEX).open("rb") as lines:
        for number, line in enumerate(lines, 1):
            if not line.strip():
                continue
            try:
                entry = orjson.loads(line)
                key, label = str(entry["key"]), entry.get("label")
            except (ValueError, KeyError, TypeError, AttributeError) as error:
                raise Refused(
                    f"line {number} of the data set's index is no row ({error}); write one JSON object a "
                    "line, "
                    '{"key": …, "label": …, "split": …}'
                ) from error
            found[key] = _text(label)
    return found


def _text(label: object) -> str | None:
    if label is None:
        return None
    return orjson.dumps(label).decode() if isinstance(label, list | dict) else str(label)


def read_rows(folder: Path, only: Container[str] | None = None) -> Iterator[Row]:
    """Rows in the shards' order, all or those of the keys in `only`; the bytes of others are passed over.

    Raises Refused when a shard is not what the data set says.
    """
    dataset = describe(folder)
    labels = read_labels(folder)
    for shard in dataset.shards:
        path = folder / shard.path
        try:
            rows = _raw_rows(path, only) if dataset.form == "raw" else _tensor_rows(path, only)
            for row in rows:
                if row.key not in labels:
                    raise Refused(
                        f"row {row.key!r} of shard {shard.path} of {dataset.name}@{dataset.version} is not "
                        "in "
                        "the index; write a line for every row and register the data set again"
                    )
                yield Row(row.key, labels[row.key], row.raw, row.tensors)
        except (tarfile.TarError, zipfile.BadZipFile, ValueError, EOFError) as error:
            raise Refused(
                f"shard {shard.path} of {dataset.name}@{dataset.version} can't be read ({error}); a data "
                "set of "
                f"form {dataset.form} wants {'tar' if dataset.form == 'raw' else 'npz'} shards"
            ) from error


def _raw_rows(path: Path, only: Container[str] | None) -> Iterator[Row]:
    """Regular members only: a link could name any file of this machine."""
    with tarfile.open(path, "r|*") as archive:
        for member in archive:
            if member.isdir() or (only is not None and member.name not in only):
                continue
            if not member.isreg():
                raise Refused(
                    f"member {member.name!r} of {path.name} is a link or a device; write plain files"
                )
            if member.size > LARGEST_RAW_BYTES:
                raise Refused(
                    f"member {member.name!r} of {path.name} has {member.size} bytes; at most "
                    f"{LARGEST_RAW_BYTES}"
                )
            stream = archive.extractfile(member)
            assert stream is not None, "regular members have bytes"
            yield Row(member.name, None, raw=stream.read())


def _tensor_rows(path: Path, only: Container[str] | None) -> Iterator[Row]:
    with np.load(path, allow_pickle=False) as shard:
        names = [name for name in shard.files if name != KEYS]
        if KEYS not in shard.files or not names:
            raise Refused(f"shard {path.name} wants one array per input and {KEYS!r}; it has {shard.files}")
        keys = shard[KEYS]
        arrays = {name: shard[name] for name in names}
    for name, array in arrays.items():
        if array.ndim < 1 or len(array) != len(keys):
            raise Refused(
                f"array {name!r} of {path.name} has shape {list(array.shape)} for {len(keys)} keys; rows "
                "come first"
            )
    for at, key in enumerate(keys):
        if only is None or str(key) in only:
            yield Row(str(key), None, tensors={name: array[at : at + 1] for name, array in arrays.items()})
