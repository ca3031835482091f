"""The request log: one compact JSON line per request, buffered, written off the event loop.

A full or blocked disk never holds a request: lines that find no room are dropped and counted, and the next
line that is written says how many. The file begins anew at its size limit; one earlier file is kept.
"""

import asyncio
import logging
from pathlib import Path

import orjson

FLUSH_S = 0.5
BUFFER_LIMIT_BYTES = 1 << 20

log = logging.getLogger("slipway.telemetry")


class AccessLog:
    """Used by one event loop. `limit_bytes` 0 means no log at all."""

    def __init__(self, path: Path, limit_bytes: int) -> None:
        self._path = path
        self._limit = limit_bytes
        self._lines: list[bytes] = []
        self._buffered = 0
        self.dropped = 0
        self._timer: asyncio.TimerHandle | None = None
        self._writing: asyncio.Future[None] | None = None

    def line(self, document: dict[str, object]) -> None:
        if not self._limit:
            return
        if self._buffered > BUFFER_LIMIT_BYTES:
            self.dropped += 1
            return
        text = orjson.dumps(document, option=orjson.OPT_APPEND_NEWLINE)
        self._lines.append(text)
        self._buffered += len(text)
        if self._timer is None:
            self._timer = asyncio.get_running_loop().call_later(FLUSH_S, self._flush)

    def close(self) -> None:
        """Writes what is left; at the end of the process."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        self._take(self._lines)
        self._lines = []

    def _flush(self) -> None:
        self._timer = None
        loop = asyncio.get_running_loop()
        if self._writing is not None and not self._writing.done():
            self._timer = loop.call_later(FLUSH_S, self._flush)
            return
        lines, self._lines, self._buffered = self._lines, [], 0
        self._writing = loop.run_in_executor(None, self._take, lines)

    def _take(self, lines: list[bytes]) -> None:
        if not lines:
            return
        dropped = self.dropped
        if dropped:
            lines.insert(0, orjson.dumps({"dropped_lines": dropped}, option=orjson.OPT_APPEND_NEWLINE))
        try:
            self._path.parent.mkdir(parents=True, exist_ok=True)
            if self._path.exists() and self._path.stat().st_size > self._limit:
                self._path.replace(self._path.with_suffix(".earlier.jsonl"))
            with self._path.open("ab") as file:
                file.write(b"".join(lines))
            self.dropped -= dropped
        except OSError as error:
            self.dropped += len(lines) - (1 if dropped else 0)
            log.warning("the request log %s takes no lines: %s", self._path, error)
