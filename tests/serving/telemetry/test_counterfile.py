"""Counter files: what was counted is read, by whoever reads it and whenever the writer died."""

import hashlib
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from registry.contract.counters import CounterEdges, ObservableEdges, field_sizes
from serving.telemetry.counterfile import CounterFile, CounterKey, Extra, counter_path, find, read

EDGES = CounterEdges(
    observables=(
        ObservableEdges(name="label", kind="class", labels=("a", "b")),
        ObservableEdges(name="score", kind="score", edges=(0.5,)),
    )
)
ARM = f"arm-{hashlib.sha256(b'x').hexdigest()}"
KEY = CounterKey(incarnation="inc", worker=3, deployment="prod/m", generation=7, arm=ARM, version="m@1@fp32")


def test_path_says_the_key(tmp_path: Path) -> None:
    path = counter_path(tmp_path, KEY)
    assert path == tmp_path / "counters" / "inc" / "3" / "prod~m" / "7" / f"{ARM}.counters"


@given(
    adds=st.lists(st.tuples(st.sampled_from(sorted(field_sizes(EDGES))), st.integers(0, 10**6)), max_size=20)
)
def test_what_is_added_is_read(tmp_path_factory: pytest.TempPathFactory, adds: list[tuple[str, int]]) -> None:
    path = counter_path(tmp_path_factory.mktemp("c"), KEY)
    file = CounterFile.create(path, KEY, EDGES)
    wanted: dict[tuple[str, int], int] = {}
    for field, n in adds:
        cell = n % field_sizes(EDGES)[field]
        file.add(field, cell, n)
        wanted[field, cell] = wanted.get((field, cell), 0) + n
    snapshot = read(path)
    assert snapshot is not None
    assert snapshot.key == KEY and snapshot.edges == EDGES
    found = {
        (name, int(at)): int(n)
        for name, cells in snapshot.sparse().items()
        for at, n in zip(cells.at, cells.n, strict=True)
    }
    assert found == {cell: n for cell, n in wanted.items() if n}
    file.close()
    file.close()


def test_a_killed_writer_leaves_its_last_values(tmp_path: Path) -> None:
    path = counter_path(tmp_path, KEY)
    code = f"""
import os, signal
from pathlib import Path
from tests.serving.telemetry.test_counterfile import KEY, EDGES
from serving.telemetry.counterfile import CounterFile, Extra
file = CounterFile.create(Path({str(path)!r}), KEY, EDGES)
file.add("outcome.ok", 0, 5); file.add("assigned", 0, 5); file.cells[Extra.INFLIGHT] += 2
os.kill(os.getpid(), signal.SIGKILL)
"""
    subprocess.run([sys.executable, "-c", code], check=False)
    snapshot = read(path)
    assert snapshot is not None and snapshot.inflight == 2
    settled = snapshot.settled()
    assert settled.fields["assigned"][0] == 7
    assert settled.fields["outcome.died"][0] == 2
    assert snapshot.fields["assigned"][0] == 5
    again = CounterFile.create(path, KEY, EDGES)
    again.add("outcome.ok")
    after = read(path)
    assert after is not None and after.inflight == 0
    assert after.fields["outcome.ok"][0] == 6
    assert after.fields["outcome.died"][0] == 2
    again.close()


def test_torn_empty_and_foreign_files_are_no_counters(tmp_path: Path) -> None:
    path = counter_path(tmp_path, KEY)
    CounterFile.create(path, KEY, EDGES).close()
    whole = path.read_bytes()
    assert read(path) is not None
    for size in (0, 4, 12, 40, len(whole) - 8, len(whole) - 1):
        path.write_bytes(whole[:size])
        assert read(path) is None, size
    path.write_bytes(whole.replace(b"SLIPCTR1", b"SLIPCTR9"))
    assert read(path) is None
    path.write_bytes(whole.replace(b'"layout":"sha256-', b'"layout":"sha256-0'))
    assert read(path) is None
    assert read(tmp_path / "missing") is None
    assert list(find(tmp_path, "inc")) == [path]
    assert list(find(tmp_path, "other")) == []


def test_other_edges_begin_anew(tmp_path: Path) -> None:
    path = counter_path(tmp_path, KEY)
    first = CounterFile.create(path, KEY, EDGES)
    first.add("assigned")
    first.close()
    second = CounterFile.create(path, KEY, CounterEdges())
    snapshot = read(path)
    assert snapshot is not None and snapshot.edges == CounterEdges()
    assert snapshot.fields["assigned"][0] == 0
    second.close()


def test_counting_goes_on_where_nothing_can_be_written(tmp_path: Path) -> None:
    (tmp_path / "counters").write_text("in the way")
    with pytest.raises(OSError):
        CounterFile.create(counter_path(tmp_path, KEY), KEY, EDGES)
    file = CounterFile.unbacked(KEY, EDGES)
    file.add("assigned", 0, 3)
    assert file.cells[file.base("assigned")] == 3
    assert file.cells[Extra.INFLIGHT] == 0
    assert not file.backed
    file.close()
