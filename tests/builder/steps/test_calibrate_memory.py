"""Calibrating needs no more memory for many rows than for few: one row is held at a time, and counts."""

import os
import sys
import threading
from pathlib import Path

from builder.isolation import isolate
from builder.isolation.isolate import Ending, Limits
from tests.builder import pictures


def test_many_rows_need_no_more_memory_than_few(tmp_path: Path) -> None:
    model = pictures.model(tmp_path / "model.onnx")
    peaks = []
    for rows in (3, 16):
        folder = pictures.rows(tmp_path / f"rows-{rows}", rows)
        words = pictures.calibrate(model, folder, tmp_path / f"out-{rows}")
        outcome = isolate.run(
            [sys.executable, "-P", "-m", "builder.steps", *words],
            folder=tmp_path,
            log=tmp_path / f"log-{rows}",
            limits=Limits(timeout_s=150, memory_bytes=4 << 30),
            environment={"PATH": os.environ["PATH"]},
            heard=lambda text: None,
            stop=threading.Event(),
        )
        assert outcome.ending is Ending.OK, (tmp_path / f"log-{rows}").read_text()
        peaks.append(outcome.peak_memory_bytes)
    # All rows at once would be 16 × 11 MiB of watched tensors.
    assert peaks[1] < 1.2 * peaks[0]
