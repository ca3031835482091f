"""A load client for several servers: a fixed number of connections, each sends its next request when the last
one is answered. `python -m bench.http_load < PLAN` prints one JSON line; it runs in a process of its own, so
that its work is not the server's. Both servers of a comparison are loaded by it, so its own cost is the same.
"""

import asyncio
import itertools
import sys
import time
from dataclasses import asdict, dataclass, field

import orjson
import uvloop


@dataclass(frozen=True)
class Plan:
    """`requests`: (method, path, body) in turn; `{n}` in them and in `headers` is a number of its own for
    each request, `{c}` that of the connection."""

    port: int
    connections: int
    seconds: float
    requests: tuple[tuple[str, str, str], ...]
    headers: dict[str, str] = field(default_factory=dict)
    first: int = 0


@dataclass
class Tally:
    """Answers of 2xx, and others; latencies in milliseconds. `sample` is the first answer that is no 2xx."""

    answered: int
    failed: int
    per_second: float
    p50_ms: float
    p95_ms: float
    sample: str


async def _answer(reader: asyncio.StreamReader) -> tuple[bool, bytes]:
    head = (await reader.readuntil(b"\r\n\r\n")).lower()
    fields = dict(line.split(b": ", 1) for line in head.split(b"\r\n")[1:] if b": " in line)
    if b"content-length" in fields:
        body = await reader.readexactly(int(fields[b"content-length"]))
    else:
        body = b""
        while size := int(await reader.readline(), 16):
            body += (await reader.readexactly(size + 2))[:-2]
        await reader.readexactly(2)
    return head.split(b" ", 2)[1].startswith(b"2"), body


async def load(plan: Plan) -> Tally:
    took: list[float] = []
    failures: list[bytes] = []
    numbers = itertools.count(plan.first)
    until = time.perf_counter() + plan.seconds

    async def connection(at: int) -> None:
        reader, writer = await asyncio.open_connection("127.0.0.1", plan.port)
        turns = itertools.islice(itertools.cycle(plan.requests), at, None)
        while (sent := time.perf_counter()) < until:
            n = str(next(numbers))
            method, path, body = (part.replace("{n}", n).replace("{c}", str(at)) for part in next(turns))
            headers = {"host": f"127.0.0.1:{plan.port}", "content-length": str(len(body.encode()))}
            headers |= {name: value.replace("{n}", n) for name, value in plan.headers.items()}
            lines = "".join(f"{name}: {value}\r\n" for name, value in headers.items())
            writer.write(f"{method} {path} HTTP/1.1\r\n{lines}\r\n{body}".encode())
            good, answer = await _answer(reader)
            took.append(time.perf_counter() - sent)
            if not good:
                failures.append(answer)
        writer.close()

    begun = time.perf_counter()
    await asyncio.gather(*(connection(at) for at in range(plan.connections)))
    seconds = time.perf_counter() - begun
    took.sort()
    return Tally(
        answered=len(took) - len(failures),
        failed=len(failures),
        per_second=(len(took) - len(failures)) / seconds,
        p50_ms=took[len(took) // 2] * 1e3,
        p95_ms=took[int(len(took) * 0.95)] * 1e3,
        sample=failures[0].decode(errors="replace")[:500] if failures else "",
    )


def main() -> None:
    plan = Plan(**orjson.loads(sys.stdin.buffer.read()))
    print(orjson.dumps(asdict(uvloop.run(load(plan)))).decode())


if __name__ == "__main__":
    main()
