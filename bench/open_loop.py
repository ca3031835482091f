"""A load client whose requests leave at their own times (Poisson), whatever became of the earlier ones.

`python -m bench.open_loop PORT PATH RATE SECONDS < BODY` prints one JSON line. Latency counts from the
intended time to send, there are no retries, and it runs in a process of its own.
"""

import asyncio
import json
import random
import sys
import time

import uvloop

from bench.wire import exchange, posted


class Connections:
    """Idle ones are used again; a new one is opened where there is none."""

    def __init__(self, port: int) -> None:
        self._port = port
        self._idle: list[tuple[asyncio.StreamReader, asyncio.StreamWriter]] = []

    async def send(self, request: bytes) -> bool:
        """True for an answer of 200. A connection that breaks meanwhile is a request that failed."""
        try:
            pair = await self._taken()
            succeeded = await exchange(*pair, request)
        except (OSError, asyncio.IncompleteReadError):
            return False
        self._idle.append(pair)
        return succeeded

    async def _taken(self) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        """Servers close what was idle for some seconds."""
        while self._idle:
            pair = self._idle.pop()
            if not pair[0].at_eof():
                return pair
            pair[1].close()
        return await asyncio.open_connection("127.0.0.1", self._port)


async def load(port: int, path: str, body: bytes, rate: float, seconds: float) -> dict[str, float]:
    request = posted(path, body)
    connections, generator = Connections(port), random.Random(7)
    took: list[float] = []
    failed = 0

    async def one(intended: float) -> None:
        nonlocal failed
        failed += not await connections.send(request)
        took.append(time.perf_counter() - intended)

    under_way: set[asyncio.Task[None]] = set()
    begun = intended = time.perf_counter()
    while intended < begun + seconds:
        await asyncio.sleep(max(0.0, intended - time.perf_counter()))
        task = asyncio.create_task(one(intended))
        under_way.add(task)
        task.add_done_callback(under_way.discard)
        intended += generator.expovariate(rate)
    await asyncio.gather(*under_way)
    took.sort()
    return {
        "requests": len(took),
        "failed": failed,
        "rate": len(took) / seconds,
        "p50_ms": took[len(took) // 2] * 1e3,
        "p99_ms": took[int(len(took) * 0.99)] * 1e3,
    }


def main() -> None:
    port, path, rate, seconds = sys.argv[1:5]
    body = sys.stdin.buffer.read()
    print(json.dumps(uvloop.run(load(int(port), path, body, float(rate), float(seconds)))))


if __name__ == "__main__":
    main()
