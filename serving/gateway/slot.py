"""One arm's engine as a gateway worker sees it: its plan, its lane, and a connection that is kept up.

Slots outlive tables: a standby's slot is connected before any traffic comes, so that a rollback swaps a
pointer and waits for nothing.
"""

import asyncio
import contextlib
from collections.abc import Callable, Sequence

from serving.control import ArmEntry
from serving.engine.client import EngineClient
from serving.engine.errors import EngineError
from serving.gateway.batching import Lane
from serving.gateway.book import Ticket
from serving.gateway.plan import Plan
from serving.gateway.settings import GatewaySettings
from serving.gateway.work import Work
from serving.runtimes.protocol import Array

RETRY_FIRST_S = 0.02
RETRY_LAST_S = 1.0
AFTER_OVERDUE_S = 1.0
PING_S = 10.0


class Slot:
    """`on_lost(reason)` is called when a connected engine is gone or overdue."""

    def __init__(self, entry: ArmEntry, settings: GatewaySettings, on_lost: Callable[[str], None]) -> None:
        self.arm = entry.arm
        self.plan = Plan.of(entry)
        self.example: dict[str, Array] | None = None
        """The inputs of the last row that went well: what readiness asks again."""
        self.lane = Lane(
            self.plan.rules(settings.queue_rows, settings.run_limit_s),
            self.plan.judge,
            self._count_run,
            self._overdue,
        )
        self._on_lost = on_lost
        self._socket: str | None = None
        self._client: EngineClient | None = None
        self._keeper: asyncio.Task[None] | None = None
        self._connected = asyncio.Event()
        self._overdue_reason: str | None = None

    def point_at(self, socket: str | None) -> None:
        """Where the engine process listens; another path means another process. None: not loaded."""
        if socket == self._socket:
            return
        self._drop()
        self._socket = socket
        if socket is not None:
            self._keeper = asyncio.get_running_loop().create_task(self._keep(socket))

    async def connected(self) -> None:
        """Returns when there is an engine behind the lane; at once where none is loaded."""
        if self._socket is not None:
            await self._connected.wait()

    def close(self) -> None:
        """The arm is not held any more; whoever still waits here is told so."""
        self.lane.shut()
        self._drop()
        self._socket = None

    async def _keep(self, socket: str) -> None:
        wait = RETRY_FIRST_S
        while True:
            try:
                client = await _live(socket)
            except EngineError:
                await asyncio.sleep(wait)
                wait = min(wait * 2, RETRY_LAST_S)
                continue
            wait = RETRY_FIRST_S
            self._client = client
            self.lane.attach(client)
            self._connected.set()
            reason = await asyncio.shield(client.lost)
            self._connected.clear()
            self.lane.detach()
            self._client = None
            overdue, self._overdue_reason = self._overdue_reason, None
            self._on_lost(overdue or reason)
            if overdue is not None:
                await asyncio.sleep(AFTER_OVERDUE_S)

    def _drop(self) -> None:
        if self._keeper is not None:
            self._keeper.cancel()
            self._keeper = None
        self._connected.clear()
        self.lane.detach()
        if self._client is not None:
            self._client.close()
            self._client = None

    def _overdue(self, reason: str) -> None:
        """The keeper sees the closed client, tells of it, leaves the agent time to kill the process, and
        connects anew."""
        self._overdue_reason = reason
        if self._client is not None:
            self._client.close()

    def _count_run(self, works: Sequence[Work], rows: int, engine_us: int) -> None:
        for work in works:
            if isinstance(work.owner, Ticket) and not work.owner.explicit:
                work.owner.book.count_run(rows, engine_us)
                return


async def _live(socket: str) -> EngineClient:
    """A connection whose process answers: a dying one still takes connections. Raises EngineError."""
    client = await EngineClient.connect(socket)
    try:
        await client.ping(PING_S)
    except BaseException:
        client.close()
        raise
    return client


async def all_connected(slots: Sequence[Slot], at_most_s: float) -> None:
    """Waits for every loaded slot, at most so long: a dead engine never delays a swap for ever."""
    if slots:
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(at_most_s):
                await asyncio.gather(*(slot.connected() for slot in slots))
