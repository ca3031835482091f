"""The line to the agent: tables in, what became of them out. When it ends, the agent is gone."""

import asyncio
import contextlib
import gc
import logging
from pathlib import Path

from registry.contract.identity import ArmId
from registry.contract.routes import Fence
from serving.control import Drained, EngineLost, Hello, Table, Taken
from serving.gateway.gateway import Gateway

LINE_LIMIT = 64 << 20

log = logging.getLogger("slipway.gateway")


class ControlLink:
    """`connect`, then `serve` until the agent closes the line."""

    def __init__(self, gateway: Gateway, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._gateway = gateway
        self._reader = reader
        self._writer = writer
        self._newest: Table | None = None
        self._came = asyncio.Event()
        self._seen = False
        gateway.on_drained = self._drained
        gateway.on_lost = self._lost

    @classmethod
    async def connect(cls, gateway: Gateway, path: Path, hello: Hello) -> "ControlLink":
        """Raises OSError when no agent listens at `path`."""
        reader, writer = await asyncio.open_unix_connection(path, limit=LINE_LIMIT)
        link = cls(gateway, reader, writer)
        link._say(hello)
        return link

    async def serve(self) -> None:
        """Takes tables; of several that wait only the newest. Returns when the line ends."""
        taking = asyncio.get_running_loop().create_task(self._take())
        try:
            while line := await self._reader.readline():
                self._newest = Table.model_validate_json(line)
                self._came.set()
        except (ConnectionError, ValueError) as error:
            log.error("the line to the agent broke: %s", error)
        finally:
            taking.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await taking
            self._writer.close()

    async def _take(self) -> None:
        while True:
            await self._came.wait()
            self._came.clear()
            table, self._newest = self._newest, None
            if table is not None:
                await self._gateway.take(table)
                if not self._seen:
                    # What the first table built lives as long as the process: not worth looking at again.
                    gc.freeze()
                    self._seen = True
                self._say(Taken(worker=self._gateway.identity.worker, seq=table.seq))

    def _drained(self, deployment: str, fence: Fence) -> None:
        self._say(Drained(worker=self._gateway.identity.worker, deployment=deployment, fence=fence))

    def _lost(self, deployment: str, arm: ArmId, reason: str) -> None:
        worker = self._gateway.identity.worker
        self._say(EngineLost(worker=worker, deployment=deployment, arm=arm, reason=reason))

    def _say(self, message: Hello | Taken | Drained | EngineLost) -> None:
        if not self._writer.is_closing():
            self._writer.write(message.model_dump_json().encode() + b"\n")
