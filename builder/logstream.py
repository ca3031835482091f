"""The log of a build on its way to the registry: in order, in the background, and never in the way."""

import logging
import queue
import threading
import time
from types import TracebackType
from typing import Self

from builder.held import Held, LeaseLost
from registry.client import ApiError, tasks
from registry.contract.tasks import LogChunk

CHUNK_CHARACTERS = 16_384
LONGEST_CHARACTERS = 8 << 20
GATHER_S = 0.5
CLOSE_S = 10.0

logger = logging.getLogger(__name__)


class LogStream:
    """`write` returns at once. A log that grows beyond all measure is cut, and says so."""

    def __init__(self, held: Held) -> None:
        self._held = held
        self._queue: queue.SimpleQueue[str | None] = queue.SimpleQueue()
        self._seq = 0
        self._left = LONGEST_CHARACTERS
        self._sender = threading.Thread(target=self._send, name=f"log-{held.lease.task}", daemon=True)

    def __enter__(self) -> Self:
        self._sender.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._queue.put(None)
        self._sender.join(CLOSE_S)

    def write(self, text: str) -> None:
        if self._left <= 0:
            return
        if len(text) >= self._left:
            text = text[: self._left] + "\n(the log is longer than is kept)\n"
        self._left -= len(text)
        self._queue.put(text)

    def _send(self) -> None:
        ended = False
        while not ended:
            text, ended = self._gather()
            for at in range(0, len(text), CHUNK_CHARACTERS):
                if not self._sent(text[at : at + CHUNK_CHARACTERS]):
                    return

    def _gather(self) -> tuple[str, bool]:
        """What comes within a moment, in one piece, and whether the end came with it."""
        parts: list[str] = []
        length = 0
        text = self._queue.get()
        until = time.monotonic() + GATHER_S
        while text is not None:
            parts.append(text)
            length += len(text)
            left = until - time.monotonic()
            if left <= 0 or length >= CHUNK_CHARACTERS:
                break
            try:
                text = self._queue.get(timeout=left)
            except queue.Empty:
                break
        return "".join(parts), text is None

    def _sent(self, chunk: str) -> bool:
        body = LogChunk(fence=self._held.fence, seq=self._seq, text=chunk)
        self._seq += 1
        try:
            self._held.send(tasks.log(self._held.lease.task, body))
        except LeaseLost:
            return False
        except ApiError as error:
            logger.warning("a piece of the log was refused: %s", error)
        return True
