"""One gateway worker process: its server, its line to the agent, and how it leaves."""

import asyncio
import contextlib
import gc
import logging
import signal
import socket
import time
from collections.abc import Generator
from dataclasses import dataclass
from pathlib import Path

import uvicorn

from serving.control import Hello
from serving.gateway.app import App, build
from serving.gateway.control_link import ControlLink
from serving.gateway.gateway import Identity
from serving.gateway.listener import Listener, watch_slow
from serving.gateway.settings import GatewaySettings

KEEP_ALIVE_S = 75
BACKLOG = 2048

log = logging.getLogger("slipway.gateway")


@dataclass(frozen=True, slots=True)
class Order:
    """`control` None: no agent, tables are given to `App.gateway.take` (tests)."""

    identity: Identity
    listener: socket.socket
    control: Path | None
    pid: int


class _Server(uvicorn.Server):
    """Signals are the worker's own business."""

    @contextlib.contextmanager
    def capture_signals(self) -> Generator[None, None, None]:
        yield


def listen(host: str, port: int) -> socket.socket:
    """A listening socket that several workers of one node may share the port of. Raises OSError."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    listener = socket.socket(family, socket.SOCK_STREAM)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
    listener.bind((host, port))
    return listener


class Worker:
    """`run` serves until SIGTERM, or until the agent is gone."""

    def __init__(self, order: Order, settings: GatewaySettings) -> None:
        self.app: App = build(order.identity, settings)
        self._order = order
        # Before Hello tells the port: who connects now waits in the backlog and isn't refused.
        order.listener.listen(BACKLOG)
        self._server = _Server(
            uvicorn.Config(
                self.app.asgi,
                http=Listener,
                ws="none",
                lifespan="off",
                log_config=None,
                access_log=False,
                server_header=False,
                date_header=False,
                proxy_headers=False,
                backlog=BACKLOG,
                timeout_keep_alive=KEEP_ALIVE_S,
                timeout_graceful_shutdown=max(1, int(settings.drain_s)),
            )
        )

    @property
    def port(self) -> int:
        return int(self._order.listener.getsockname()[1])

    def leave(self) -> None:
        """Readiness first, then no new connections, then the end of what is inside."""
        self.app.gateway.leaving = True
        self._server.should_exit = True

    async def run(self) -> None:
        loop = asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, self.leave)
        line = await self._link()
        slow = loop.create_task(watch_slow(self._server.server_state.connections))
        gc.collect()
        gc.freeze()
        try:
            await self._server.serve([self._order.listener])
        finally:
            slow.cancel()
            if line is not None:
                line.cancel()
                with contextlib.suppress(asyncio.CancelledError):
                    await line
            self.app.close()

    async def _link(self) -> asyncio.Task[None] | None:
        if self._order.control is None:
            return None
        hello = Hello(worker=self._order.identity.worker, pid=self._order.pid, port=self.port)
        link = await ControlLink.connect(self.app.gateway, self._order.control, hello)
        return asyncio.get_running_loop().create_task(self._follow(link))

    async def _follow(self, link: ControlLink) -> None:
        began = time.monotonic()
        try:
            await link.serve()
        finally:
            log.info("the agent closed the line after %.0f s: leaving", time.monotonic() - began)
            self.leave()
