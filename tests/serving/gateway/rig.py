"""A real gateway worker process, and this test as its agent over the real control socket."""

import asyncio
import contextlib
import json
import os
import sys
import tempfile
from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx
from pydantic import TypeAdapter

from registry.contract.counters import Outcome
from serving.control import Drained, EngineLost, FromGateway, Hello, Table, Taken
from serving.telemetry.counterfile import CounterSnapshot, find, read
from tests.serving.gateway.contracts import EntrySpec, arm_id

PATIENCE_S = 60.0
STARTED_WITHIN_S = 60.0
_MESSAGE: TypeAdapter[Hello | Taken | Drained | EngineLost] = TypeAdapter(FromGateway)


@dataclass
class Rig:
    """`said`: what the worker told its agent so far, in order."""

    state: Path
    process: asyncio.subprocess.Process
    reader: asyncio.StreamReader
    writer: asyncio.StreamWriter
    port: int
    http: httpx.AsyncClient
    seq: int = 0
    said: list[Taken | Drained | EngineLost] = field(default_factory=list)

    async def take(self, *entries: EntrySpec, draining: bool = False) -> None:
        """Sends a table and returns when it was taken."""
        self.seq += 1
        table = Table(
            seq=self.seq,
            registry_id="reg_1",
            entries=tuple(entry.entry() for entry in entries),
            draining=draining,
        )
        self.writer.write(table.model_dump_json().encode() + b"\n")
        await self.hear(lambda message: isinstance(message, Taken) and message.seq == self.seq)

    async def hear(self, wanted: Any) -> Taken | Drained | EngineLost:
        """The first message, of those that came and will come, that is wanted."""
        for message in self.said:
            if wanted(message):
                return message
        async with asyncio.timeout(PATIENCE_S):
            while True:
                line = await self.reader.readline()
                assert line, "the worker closed its line"
                message = _MESSAGE.validate_json(line)
                assert not isinstance(message, Hello)
                self.said.append(message)
                if wanted(message):
                    return message

    async def listen(self, seconds: float) -> None:
        """Takes in what is said for so long."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self.hear(lambda _: False)

    async def drained(self, generation: int) -> None:
        await self.hear(
            lambda message: isinstance(message, Drained) and message.fence.generation == generation
        )

    def counters(self, arm: str, generation: int = 1) -> CounterSnapshot:
        """As the file of the one worker has them now."""
        for path in find(self.state, "inc-1"):
            snapshot = read(path)
            if snapshot is None or snapshot.key.generation != generation:
                continue
            if snapshot.key.arm == arm_id(arm):
                return snapshot
        raise AssertionError(f"no counters of {arm} in generation {generation}")

    async def inside(self, arm: str, n: int, generation: int = 1) -> None:
        """Returns when so many requests of the arm are inside."""
        async with asyncio.timeout(PATIENCE_S):
            while self.counters(arm, generation).inflight != n:
                await asyncio.sleep(0.01)

    def outcomes(self, arm: str, generation: int = 1) -> dict[str, int]:
        """The outcomes that happened; `assigned` must be their sum."""
        fields = self.counters(arm, generation).fields
        found = {one.value: int(fields[f"outcome.{one.value}"][0]) for one in Outcome}
        assert int(fields["assigned"][0]) == sum(found.values())
        return {name: n for name, n in found.items() if n}

    async def infer(
        self,
        inputs: Mapping[str, tuple[str, list[Any]]],
        headers: Mapping[str, str] | None = None,
        path: str = "m",
    ) -> httpx.Response:
        """`inputs`: name → (datatype, nested list with the batch axis)."""
        tensors = [
            {"name": name, "datatype": dtype, "shape": shape_of(data), "data": data}
            for name, (dtype, data) in inputs.items()
        ]
        return await self.http.post(f"/v2/models/{path}/infer", json={"inputs": tensors}, headers=headers)

    async def classify(self, *rows: int, headers: Mapping[str, str] | None = None) -> httpx.Response:
        """One-hot rows for the classifier."""
        data = [[1.0 if at == row else 0.0 for at in range(4)] for row in rows]
        return await self.infer({"x": ("FP32", data)}, headers)

    async def kill(self) -> None:
        self.process.kill()
        await self.process.wait()


def shape_of(data: Any) -> list[int]:
    return [len(data), *shape_of(data[0])] if isinstance(data, list) and data else [0] if data == [] else []


@contextlib.asynccontextmanager
async def gateway(environment: Mapping[str, str] | None = None) -> AsyncIterator[Rig]:
    """A worker that has no table yet. Its settings by `environment` (SLIPWAY_GATEWAY_…)."""
    with tempfile.TemporaryDirectory(prefix="gw-") as folder:
        state = Path(folder)
        lines: asyncio.Queue[tuple[asyncio.StreamReader, asyncio.StreamWriter]] = asyncio.Queue()
        control = state / "agent.sock"
        server = await asyncio.start_unix_server(lambda r, w: lines.put_nowait((r, w)), control)
        process = await asyncio.create_subprocess_exec(
            sys.executable,
            *("-W", "error"),
            *("-m", "serving.gateway", "--worker=0", f"--control={control}", f"--state={state}"),
            *("--incarnation=inc-1", f"--parent={os.getpid()}"),
            env={**os.environ, **(environment or {})},
        )
        try:
            async with asyncio.timeout(STARTED_WITHIN_S):
                reader, writer = await lines.get()
                hello = _MESSAGE.validate_json(await reader.readline())
            assert isinstance(hello, Hello)
            limits = httpx.Limits(max_connections=200)
            base = f"http://127.0.0.1:{hello.port}"
            async with httpx.AsyncClient(base_url=base, timeout=PATIENCE_S, limits=limits) as http:
                try:
                    yield Rig(state, process, reader, writer, hello.port, http)
                finally:
                    writer.close()
                    with contextlib.suppress(ConnectionError):
                        await writer.wait_closed()
        finally:
            if process.returncode is None:
                process.terminate()
                with contextlib.suppress(TimeoutError):
                    async with asyncio.timeout(PATIENCE_S):
                        await process.wait()
                if process.returncode is None:
                    process.kill()
                    await process.wait()
            server.close()


def problem(response: httpx.Response) -> dict[str, Any]:
    assert response.headers["content-type"] == "application/problem+json"
    document: dict[str, Any] = json.loads(response.content)
    assert document["status"] == response.status_code
    assert document["detail"] and document["hint"] and document["title"]
    return document
