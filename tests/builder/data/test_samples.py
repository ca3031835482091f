"""Samples survive their file, and rows are told apart by what is in them."""

from pathlib import Path

import numpy as np

from builder.data.samples import Sample, Tensors, batches, fingerprint, read_samples, write_samples

ROWS = [
    Sample("a", {"x": np.ones((1, 3), np.float32), "n": np.array([[5]], np.int64)}, b"raw \x00"),
    Sample("b", {"x": np.zeros((1, 7), np.float32), "n": np.array([[6]], np.int64)}),
    Sample("c", {"x": np.zeros((1, 7), np.float32), "n": np.array([[7]], np.int64)}),
]


def test_what_is_written_is_read(tmp_path: Path) -> None:
    write_samples(tmp_path / "s.npz", ROWS)
    found = read_samples(tmp_path / "s.npz")
    assert [(one.key, one.raw) for one in found] == [("a", b"raw \x00"), ("b", None), ("c", None)]
    for left, right in zip(found, ROWS, strict=True):
        assert fingerprint(left.tensors) == fingerprint(right.tensors)


def test_equal_samples_give_equal_bytes(tmp_path: Path) -> None:
    write_samples(tmp_path / "first.npz", ROWS)
    write_samples(tmp_path / "second.npz", ROWS)
    assert (tmp_path / "first.npz").read_bytes() == (tmp_path / "second.npz").read_bytes()


def test_texts_survive_their_file(tmp_path: Path) -> None:
    texts = np.array([["grüße", ""]], dtype=object)
    write_samples(tmp_path / "s.npz", [Sample("a", {"t": texts})])
    (found,) = read_samples(tmp_path / "s.npz")
    assert found.tensors["t"].tolist() == [["grüße", ""]]
    assert fingerprint(found.tensors) == fingerprint({"t": texts})


def test_a_fingerprint_sees_values_shapes_types_and_names() -> None:
    base = {"x": np.zeros((1, 4), np.float32)}
    others: list[Tensors] = [
        {"x": np.ones((1, 4), np.float32)},
        {"x": np.zeros((1, 2, 2), np.float32)},
        {"x": np.zeros((1, 4), np.int32)},
        {"y": np.zeros((1, 4), np.float32)},
    ]
    prints = {fingerprint(one) for one in [base, *others]}
    assert len(prints) == 5
    assert fingerprint({"x": np.zeros((4, 1), np.float32).T}) == fingerprint(base)


def test_batches_hold_neighbours_of_equal_shapes() -> None:
    assert [[one.key for one in batch] for batch in batches(ROWS, 8)] == [["a"], ["b", "c"]]
    assert [[one.key for one in batch] for batch in batches(ROWS, 1)] == [["a"], ["b"], ["c"]]
