"""An open-loop load client without retries: a process of its own, so that nothing else slows it down.

    python -m slipway.demo.load --inputs DIR --nodes-url URL --token-file F --rate 60 --seed 1 --journal OUT

Requests leave at their intended times whatever happened to the earlier ones; latency counts from then. Each
attempt writes one line to the journal when its answer is complete. Ends at SIGTERM with every answer in.
"""

import argparse
import asyncio
import json
import random
import signal
import time
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TextIO

import httpx

REFRESH_S = 1.0
TIMEOUT_S = 30.0


@dataclass(frozen=True)
class Attempt:
    """`sent_at`, `answered_at`: wall clock, in seconds; `latency_ms` from the intended time to send."""

    n: int
    key: str
    sent_at: float
    answered_at: float
    latency_ms: float
    status: int
    node: str
    version: str
    role: str
    arm: str
    label: str
    error: str


class Load:
    """Draws files at random, goes around the published nodes, and keeps count."""

    def __init__(self, options: argparse.Namespace) -> None:
        self._rate: float = options.rate
        self._random = random.Random(options.seed)
        self._inputs = sorted(Path(options.inputs).iterdir())
        self._model: str = options.model
        self._nodes_url: str = options.nodes_url
        self._token = Path(options.token_file).read_text().strip()
        self._nodes: list[str] = []
        self._journal_path = Path(options.journal)
        self._listed = asyncio.Event()
        self._stopping = asyncio.Event()
        self._http = httpx.AsyncClient(
            timeout=TIMEOUT_S, trust_env=False, limits=httpx.Limits(max_connections=256)
        )

    async def run(self) -> None:
        loop = asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, self._stop)
        refresher = asyncio.create_task(self._refresh())
        await self._listed.wait()
        with self._journal_path.open("w", buffering=1) as journal:
            await self._send(journal)
        refresher.cancel()
        await self._http.aclose()

    def _stop(self) -> None:
        self._stopping.set()
        self._listed.set()

    async def _send(self, journal: TextIO) -> None:
        under_way: set[asyncio.Task[None]] = set()
        start, n = time.monotonic(), 0
        while not self._stopping.is_set():
            intended = start + n / self._rate
            await asyncio.sleep(max(0.0, intended - time.monotonic()))
            task = asyncio.create_task(self._attempt(n, intended, journal))
            under_way.add(task)
            task.add_done_callback(under_way.discard)
            n += 1
        await asyncio.gather(*under_way)

    async def _refresh(self) -> None:
        """Keeps to the last list while the registry does not answer, or says that there is no node."""
        headers = {"authorization": f"Bearer {self._token}"}
        while True:
            try:
                answer = await self._http.get(self._nodes_url, headers=headers)
                if answer.is_success:
                    found = [target for entry in answer.json() for target in entry["targets"]]
                    if found:
                        self._nodes = found
                        self._listed.set()
            except httpx.TransportError:
                pass
            await asyncio.sleep(REFRESH_S)

    async def _attempt(self, n: int, intended: float, journal: TextIO) -> None:
        path = self._random.choice(self._inputs)
        node = self._nodes[n % len(self._nodes)]
        sent_at, status, error, label = time.time(), 0, "", ""
        headers: httpx.Headers | dict[str, str] = {}
        try:
            answer = await self._http.post(
                f"http://{node}/v2/models/{self._model}/predict",
                content=path.read_bytes(),
                headers={"content-type": "application/octet-stream"},
            )
            status, headers = answer.status_code, answer.headers
            if answer.is_success:
                label = str(answer.json()["answer"].get("label", ""))
            else:
                error = answer.text[:300]
        except (httpx.HTTPError, ValueError, KeyError) as failure:
            error = f"{type(failure).__name__}: {failure}"
        attempt = Attempt(
            n=n,
            key=path.name,
            sent_at=sent_at,
            answered_at=time.time(),
            latency_ms=(time.monotonic() - intended) * 1000,
            status=status,
            node=node,
            version=headers.get("x-slipway-version", ""),
            role=headers.get("x-slipway-role", ""),
            arm=headers.get("x-slipway-arm", ""),
            label=label,
            error=error,
        )
        journal.write(json.dumps(asdict(attempt)) + "\n")


def main() -> None:
    parser = argparse.ArgumentParser(description="An open-loop load client without retries.")
    parser.add_argument("--inputs", required=True, help="directory with one raw input per file")
    parser.add_argument("--nodes-url", required=True, help="…/v1/deployments/ENV/NAME/nodes of the registry")
    parser.add_argument("--token-file", required=True)
    parser.add_argument("--model", required=True, help="the deployment's name")
    parser.add_argument("--rate", type=float, default=60.0, help="requests a second")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--journal", required=True)
    asyncio.run(Load(parser.parse_args()).run())


if __name__ == "__main__":
    main()
