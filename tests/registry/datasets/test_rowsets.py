"""Data sets made of files, and halves that share no input."""

import json
import tarfile
from pathlib import Path

import numpy as np
import orjson
import pytest

from registry.client import datasets, rowsets
from registry.client.rowsets import RowEntry
from registry.contract.versions import DatasetRef
from tests.registry.command import slipway
from tests.registry.conftest import Registry
from tests.registry.support import verifying


def names(shards: list[Path]) -> set[str]:
    found = set()
    for shard in shards:
        with tarfile.open(shard) as archive:
            found |= set(archive.getnames())
    return found


def test_files_become_rows_with_their_labels_and_where_they_came_from(tmp_path: Path) -> None:
    for name in ("b.png", "a.png"):
        (tmp_path / name).write_bytes(name.encode())
    files = {name: tmp_path / name for name in ("a.png", "b.png")}
    boxes = [{"label": "lamp", "box": [1, 2, 3, 4]}]
    made = [
        rowsets.pack(tmp_path / turn, rowsets.of_files(files, {"a.png": boxes})) for turn in ("one", "two")
    ]
    assert made[0].rows == 2
    index = rowsets.read_index(made[0].index)
    assert index["a.png"] == RowEntry("a.png", boxes, source="file:a.png")
    assert index["b.png"].label is None
    (shard,) = made[0].shards.values()
    assert names([shard]) == {"a.png", "b.png"}
    assert shard.read_bytes() == next(iter(made[1].shards.values())).read_bytes()


def test_what_can_not_be_packed_is_refused(tmp_path: Path) -> None:
    twice = [(RowEntry("a"), b"1"), (RowEntry("a"), b"2")]
    with pytest.raises(ValueError, match="'a' comes twice"):
        rowsets.pack(tmp_path / "twice", twice)
    with pytest.raises(ValueError, match="no row"):
        rowsets.pack(tmp_path / "none", [])
    with pytest.raises(ValueError, match=r"labels for x\.png"):
        list(rowsets.of_files({}, {"x.png": "cat"}))


def test_halves_hold_every_row_once_and_equal_inputs_together(tmp_path: Path) -> None:
    """Half of the rows are met twice under other names; a disagreement keeps saying where it was mined."""
    rows = [
        (
            RowEntry(f"row-{at}", at % 3, source="disagreement:prod/x/releases/4" if at == 7 else ""),
            b"%d" % (at % 60),
        )
        for at in range(90)
    ]
    whole = rowsets.pack(tmp_path / "whole", rows)
    index = rowsets.read_index(whole.index)
    halves = {
        half: rowsets.pack(tmp_path / half, rowsets.halve_raw(whole.shards.values(), index, half, "words@3"))
        for half in rowsets.HALVES
    }
    found = {half: rowsets.read_index(one.index) for half, one in halves.items()}
    assert set(found["calibration"]) | set(found["judging"]) == set(index)
    assert not set(found["calibration"]) & set(found["judging"])
    assert all(
        (f"row-{at}" in found["judging"]) == (f"row-{at + 60}" in found["judging"]) for at in range(30)
    )
    assert min(len(one) for one in found.values()) > 20
    (mined,) = [one["row-7"] for one in found.values() if "row-7" in one]
    assert mined.source == "disagreement:prod/x/releases/4"
    assert {row.split for row in found["judging"].values()} == {"judging"}
    assert halves["judging"].sources["words@3"] >= len(found["judging"]) - 1


def test_tensors_are_halved_too(tmp_path: Path) -> None:
    keys = np.array([f"row-{at}" for at in range(40)])
    np.savez(tmp_path / "rows.npz", x=np.arange(80.0).reshape(40, 2), __key__=keys)
    index = {str(key): RowEntry(str(key), "a") for key in keys}
    made = {
        half: rowsets.halve_tensors(
            {"rows.npz": tmp_path / "rows.npz"}, index, half, "rows@1", tmp_path / half
        )
        for half in rowsets.HALVES
    }
    assert sum(one.rows for one in made.values()) == 40
    with np.load(made["judging"].shards["rows.npz"]) as shard:
        assert [f"row-{int(row[0]) // 2}" for row in shard["x"]] == list(shard["__key__"])


async def test_people_pack_halve_and_look(registry: Registry, tmp_path: Path) -> None:
    folder = tmp_path / "words"
    folder.mkdir()
    for at in range(30):
        (folder / f"{at}.txt").write_bytes(b"word %d" % at)
    labels = tmp_path / "labels.jsonl"
    labels.write_text("".join(json.dumps({"key": f"{at}.txt", "label": "w"}) + "\n" for at in range(30)))
    pack = ("dataset", "pack", "words", str(folder), "--kind", "validation", "--labels", str(labels))
    halve = ("dataset", "halve", "words@1", "--calibration", "cal", "--judging", "val", "-o", "json")
    async with verifying(registry):
        await slipway(registry, *pack)
        out, _ = await slipway(registry, *halve)
    cal, val = orjson.loads(out)
    assert (cal["kind"], val["kind"], cal["rows"] + val["rows"]) == ("calibration", "validation", 30)
    ref = DatasetRef(name="val", version=1)
    found = await registry.client(datasets.get(ref.name, ref.version))
    assert "judging half of words@1" in found.provenance
    out, _ = await slipway(registry, "dataset", "show", "val@1")
    assert f"LABELLED  {val['rows']}" in out
    assert "FROM      file:" in out
