"""A load client with a fixed number of connections: each sends its next request when the last is answered.

`python -m bench.closed_loop PORT PATH CONNECTIONS SECONDS < BODY` prints one JSON line. It runs in a process
of its own, so that its work is not the server's.
"""

import asyncio
import json
import sys
import time
from dataclasses import asdict, dataclass, field

import uvloop

from bench.wire import exchange, posted


@dataclass
class Tally:
    """`seconds` is how long the load really lasted; latencies are in milliseconds."""

    requests: int = 0
    failed: int = 0
    seconds: float = 0.0
    p50_ms: float = 0.0
    p99_ms: float = 0.0
    took: list[float] = field(default_factory=list)

    def finish(self, seconds: float) -> dict[str, float]:
        took = sorted(self.took)
        self.seconds = seconds
        self.requests = len(took)
        if took:
            self.p50_ms = took[len(took) // 2] * 1e3
            self.p99_ms = took[int(len(took) * 0.99)] * 1e3
        return {name: value for name, value in asdict(self).items() if name != "took"}


async def _connection(port: int, request: bytes, until: float, tally: Tally) -> None:
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    while (sent := time.perf_counter()) < until:
        succeeded = await exchange(reader, writer, request)
        tally.took.append(time.perf_counter() - sent)
        tally.failed += not succeeded
    writer.close()


async def load(port: int, path: str, body: bytes, connections: int, seconds: float) -> dict[str, float]:
    request = posted(path, body)
    tally = Tally()
    begun = time.perf_counter()
    until = begun + seconds
    await asyncio.gather(*(_connection(port, request, until, tally) for _ in range(connections)))
    return tally.finish(time.perf_counter() - begun)


def main() -> None:
    port, path, connections, seconds = sys.argv[1:5]
    body = sys.stdin.buffer.read()
    print(json.dumps(uvloop.run(load(int(port), path, body, int(connections), float(seconds)))))


if __name__ == "__main__":
    main()
