"""HTTP as the load clients speak it: one request, built once, on a connection that is kept."""

import asyncio


def posted(path: str, body: bytes) -> bytes:
    return (
        f"POST {path} HTTP/1.1\r\nhost: bench\r\ncontent-type: application/json\r\n"
        f"content-length: {len(body)}\r\n\r\n"
    ).encode() + body


async def exchange(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, request: bytes) -> bool:
    """True for an answer of 200, read to its end."""
    writer.write(request)
    head = (await reader.readuntil(b"\r\n\r\n")).lower()
    at = head.index(b"content-length: ") + 16
    await reader.readexactly(int(head[at : head.index(b"\r\n", at)]))
    return head.startswith(b"http/1.1 200")
