"""A wire between clients and the object store that notes which parts are sent, and can be slow."""

import asyncio
import contextlib
import re
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from urllib.parse import SplitResult, urlsplit

CHUNK = 1 << 18
_PART = re.compile(rb"PUT /[^ ]*[?&]partNumber=(\d+)[^ ]* HTTP/1\.1\r\n")


@dataclass
class Tap:
    """`parts`: numbers of the parts whose sending began. `delay_s`: of every chunk that goes to the store."""

    url: str = ""
    parts: list[int] = field(default_factory=list)
    delay_s: float = 0.0


@contextlib.asynccontextmanager
async def tapped(store_url: str) -> AsyncIterator[Tap]:
    """Bytes pass as they are: signatures are of this address, as long as clients are given it."""
    address = urlsplit(store_url)
    tap = Tap()
    passing: set[asyncio.Task[object]] = set()

    def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        # A plain function: the tasks of asyncio's own would end with an error when they are cancelled.
        task = asyncio.create_task(_pass_on(tap, address, reader, writer))
        passing.add(task)
        task.add_done_callback(passing.discard)

    server = await asyncio.start_server(serve, "127.0.0.1", 0, limit=CHUNK)
    tap.url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
    try:
        yield tap
    finally:
        server.close()
        for task in passing:
            task.cancel()
        await asyncio.gather(*passing, return_exceptions=True)


async def _pass_on(
    tap: Tap, address: SplitResult, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
) -> None:
    back, onward = await asyncio.open_connection(address.hostname, address.port)
    try:
        await asyncio.gather(_up(tap, reader, onward), _down(back, writer), return_exceptions=True)
    finally:
        writer.close()
        onward.close()


async def _up(tap: Tap, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    seen = b""
    while chunk := await reader.read(CHUNK):
        seen += chunk
        for found in _PART.finditer(seen):
            tap.parts.append(int(found[1]))
            seen = seen[found.end() :]
        # A request line may be cut by the end of a chunk.
        seen = seen[-4096:]
        writer.write(chunk)
        await writer.drain()
        await asyncio.sleep(tap.delay_s)
    writer.write_eof()


async def _down(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    while chunk := await reader.read(CHUNK):
        writer.write(chunk)
        await writer.drain()
    writer.write_eof()
