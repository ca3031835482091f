"""The request log never holds a request, and says what it lost."""

import asyncio
import json
from pathlib import Path

from serving.telemetry.access_log import BUFFER_LIMIT_BYTES, FLUSH_S, AccessLog


def lines(path: Path) -> list[dict[str, object]]:
    return [json.loads(line) for line in path.read_text().splitlines()]


async def test_lines_are_written_in_order(tmp_path: Path) -> None:
    path = tmp_path / "logs" / "requests-0.jsonl"
    log = AccessLog(path, 1 << 20)
    for n in range(100):
        log.line({"n": n})
    async with asyncio.timeout(10 * FLUSH_S):
        while not path.exists() or len(lines(path)) < 100:
            await asyncio.sleep(0.02)
    log.line({"n": 100})
    log.close()
    assert [one["n"] for one in lines(path)] == list(range(101))


async def test_a_disk_that_takes_nothing_loses_lines_and_says_how_many(tmp_path: Path) -> None:
    folder = tmp_path / "logs"
    folder.write_text("a file where the folder should be")
    log = AccessLog(folder / "requests-0.jsonl", 1 << 20)
    for n in range(7):
        log.line({"n": n})
    log.close()
    assert log.dropped == 7
    folder.unlink()
    log.line({"n": 8})
    log.close()
    assert lines(folder / "requests-0.jsonl") == [{"dropped_lines": 7}, {"n": 8}]
    assert log.dropped == 0


async def test_a_full_buffer_drops(tmp_path: Path) -> None:
    log = AccessLog(tmp_path / "requests-0.jsonl", 1 << 30)
    text = "x" * 10_000
    for _ in range(2 * BUFFER_LIMIT_BYTES // 10_000):
        log.line({"text": text})
    assert log.dropped > 0
    log.close()


async def test_the_file_begins_anew_at_its_limit(tmp_path: Path) -> None:
    path = tmp_path / "requests-0.jsonl"
    log = AccessLog(path, 100)
    for n in range(3):
        log.line({"n": n, "text": "x" * 200})
        log.close()
    assert [one["n"] for one in lines(path)] == [2]
    assert [one["n"] for one in lines(tmp_path / "requests-0.earlier.jsonl")] == [1]
