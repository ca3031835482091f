"""Data sets as they come: tar and npz shards, labels, and what is refused with a reason."""

import tarfile
from pathlib import Path

import numpy as np
import pytest

from builder.data.rows import read_labels, read_rows
from builder.steps.step import Refused
from tests.builder import made


def test_raw_rows_come_in_order_with_their_labels(tmp_path: Path) -> None:
    folder = made.raw_set(tmp_path, [b"one", b"", b"three"], ["a", None, "c"])
    assert [(row.key, row.label, row.raw) for row in read_rows(folder)] == [
        ("row-00000", "a", b"one"),
        ("row-00001", None, b""),
        ("row-00002", "c", b"three"),
    ]


def test_tensor_rows_have_a_batch_axis_of_one(tmp_path: Path) -> None:
    rows = made.images(3)
    folder = made.tensor_set(tmp_path, rows, ["a", "b", "c"])
    found = list(read_rows(folder))
    assert [row.label for row in found] == ["a", "b", "c"]
    for row, wanted in zip(found, rows, strict=True):
        assert row.tensors is not None
        assert np.array_equal(row.tensors["image"], wanted)


def test_only_the_rows_asked_for_are_read(tmp_path: Path) -> None:
    folder = made.raw_set(tmp_path, [b"one", b"two"], [None, None])
    assert [row.raw for row in read_rows(folder, {"row-00001"})] == [b"two"]


def test_a_label_that_is_a_number_is_text(tmp_path: Path) -> None:
    (tmp_path / "index.jsonl").write_text('{"key": "a", "label": 7}\n\n{"key": 5, "label": null}\n')
    assert read_labels(tmp_path) == {"a": "7", "5": None}


@pytest.mark.parametrize("line", ["nonsense", "[]", '{"label": "a"}', "3"])
def test_a_line_that_is_no_row_is_named(tmp_path: Path, line: str) -> None:
    (tmp_path / "index.jsonl").write_text('{"key": "a"}\n' + line + "\n")
    with pytest.raises(Refused, match="line 2"):
        read_labels(tmp_path)


def test_a_row_without_a_line_in_the_index_is_refused(tmp_path: Path) -> None:
    folder = made.raw_set(tmp_path, [b"one", b"two"], [None, None])
    lines = (folder / "index.jsonl").read_text().splitlines()
    (folder / "index.jsonl").write_text(lines[0] + "\n")
    with pytest.raises(Refused, match=r"'row-00001'.*not in the index"):
        list(read_rows(folder))


def test_a_link_in_a_shard_is_refused(tmp_path: Path) -> None:
    folder = made.raw_set(tmp_path, [b"one"], [None])
    with tarfile.open(folder / "rows.tar", "w") as archive:
        link = tarfile.TarInfo("row-00000")
        link.type = tarfile.SYMTYPE
        link.linkname = "/etc/passwd"
        archive.addfile(link)
    with pytest.raises(Refused, match="link or a device"):
        list(read_rows(folder))


@pytest.mark.parametrize("content", [b"this is no archive at all", b""])
def test_a_shard_that_can_not_be_read_is_named(tmp_path: Path, content: bytes) -> None:
    folder = made.raw_set(tmp_path, [b"one"], [None])
    (folder / "rows.tar").write_bytes(content)
    with pytest.raises(Refused, match=r"rows\.tar of rows@1 can't be read.*tar shards"):
        list(read_rows(folder))


def test_pickled_tensors_are_never_loaded(tmp_path: Path) -> None:
    folder = made.tensor_set(tmp_path, made.images(1), [None])
    np.savez(folder / "rows.npz", image=np.array([{"a": 1}], dtype=object), __key__=np.array(["row-00000"]))
    with pytest.raises(Refused, match="can't be read"):
        list(read_rows(folder))


def test_tensors_without_keys_are_refused(tmp_path: Path) -> None:
    folder = made.tensor_set(tmp_path, made.images(1), [None])
    np.savez(folder / "rows.npz", image=made.images(1)[0])
    with pytest.raises(Refused, match="__key__"):
        list(read_rows(folder))
