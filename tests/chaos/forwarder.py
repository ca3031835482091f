"""A real TCP forwarder: one address before several, or a cable that can be cut or go silent."""

import asyncio
import contextlib
import itertools
import threading
from collections.abc import Coroutine
from enum import Enum
from typing import Any

_CHUNK = 1 << 16


class Mode(Enum):
    """SILENT: connections are taken and nothing is passed on, either way. REFUSE: there is no listener."""

    PASS = 1
    SILENT = 2
    REFUSE = 3


class Forwarder:
    """Connections go to the upstreams (ports on loopback) in turn, past those that refuse."""

    def __init__(self, *upstreams: int) -> None:
        self._upstreams = upstreams
        self._turn = itertools.count()
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)
        self._passing = asyncio.Event()
        self._passing.set()
        self._server: asyncio.Server | None = None
        self._open: set[asyncio.StreamWriter] = set()
        self._tasks: set[asyncio.Task[None]] = set()
        self.port = 0

    def __enter__(self) -> "Forwarder":
        self._thread.start()
        self._run(self._listen())
        return self

    def __exit__(self, *_: object) -> None:
        self._run(self._close(for_good=True))
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def set(self, mode: Mode) -> None:
        """From any thread; done when it returns."""
        self._run(self._set(mode))

    def _run(self, work: Coroutine[Any, Any, None]) -> None:
        asyncio.run_coroutine_threadsafe(work, self._loop).result(20)

    async def _set(self, mode: Mode) -> None:
        if mode is Mode.REFUSE:
            await self._close(for_good=False)
            return
        if mode is Mode.PASS:
            self._passing.set()
        else:
            self._passing.clear()
        if self._server is None:
            await self._listen()

    async def _listen(self) -> None:
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", self.port)
        self.port = self._server.sockets[0].getsockname()[1]

    async def _close(self, *, for_good: bool) -> None:
        if self._server is not None:
            self._server.close()
            self._server = None
        for writer in list(self._open):
            writer.transport.abort()
        if for_good:
            for task in list(self._tasks):
                task.cancel()
            await asyncio.gather(*self._tasks, return_exceptions=True)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._tasks.add(task)
        self._open.add(writer)
        try:
            await self._passing.wait()
            upstream = await self._connect()
            if upstream is not None:
                self._open.add(upstream[1])
                try:
                    await asyncio.gather(self._pipe(reader, upstream[1]), self._pipe(upstream[0], writer))
                finally:
                    self._open.discard(upstream[1])
                    upstream[1].transport.abort()
        except asyncio.CancelledError:
            # The end of the test; a stream's own callback would report it as an error.
            pass
        finally:
            self._tasks.discard(task)
            self._open.discard(writer)
            writer.transport.abort()

    async def _connect(self) -> tuple[asyncio.StreamReader, asyncio.StreamWriter] | None:
        first = next(self._turn)
        for offset in range(len(self._upstreams)):
            port = self._upstreams[(first + offset) % len(self._upstreams)]
            with contextlib.suppress(OSError):
                return await asyncio.open_connection("127.0.0.1", port)
        return None

    async def _pipe(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(OSError):
            while piece := await reader.read(_CHUNK):
                await self._passing.wait()
                writer.write(piece)
                await writer.drain()
        # The other direction ends with this one: a killed server must not leave its callers waiting.
        writer.transport.close()
