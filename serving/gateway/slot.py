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
from serving.gateway.pipelines.messages import Order
from serving.gateway.pipelines.pool import Asked, Pool
from serving.gateway.plan import Plan
from serving.gateway.settings import GatewaySettings
from serving.gateway.work import Work
from serving.pipeline.answers import RowAnswer
from serving.pipeline.files import NO_FILES, Files
from serving.pipeline.prepared import Prepared
from serving.runtimes.protocol import Array, Tensors

RETRY_FIRST_S = 0.02
RETRY_LAST_S = 1.0
AFTER_OVERDUE_S = 1.0
PING_S = 10.0
EXAMPLE_LIMIT_BYTES = 1 << 20


class Slot:
    """`on_lost(reason)` is called when a connected engine is gone or overdue."""

    def __init__(
        self,
        entry: ArmEntry,
        settings: GatewaySettings,
        on_lost: Callable[[str], None],
        files: Files = NO_FILES,
    ) -> None:
        """`files`: what the pipeline reads, on this machine. Raises PipelineMismatch."""
        self.arm = entry.arm
        self.plan = Plan.of(entry, files)
        self.pool = Pool(
            Order(contract=entry.contract, files=dict(files)),
            settings.pipeline_workers,
            settings.pipeline_limit_s,
            settings.pipeline_queue,
        )
        self.example: dict[str, Array] | None = None
        """The inputs of the last row that went well: what readiness asks again."""
        self.lane = Lane(
            self.plan.rules(settings.queue_rows, settings.run_limit_s),
            self.plan.judge,
            self._count_run,
            self._overdue,
            self._judge_apart,
            self.plan.filler,
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
            if self.plan.dear:
                self.pool.start()
            self._keeper = asyncio.get_running_loop().create_task(self._keep(socket))

    async def connected(self) -> None:
        """Returns when there is an engine behind the lane; at once where none is loaded."""
        if self._socket is not None:
            await self._connected.wait()

    def close(self) -> None:
        """The arm is not held any more; whoever still waits here is told so."""
        self.lane.shut()
        self.pool.close()
        self._drop()
        self._socket = None

    def remember(self, inputs: dict[str, Array]) -> None:
        """One row that went well. A large one isn't kept in memory for it."""
        size = 0
        for array in inputs.values():
            size += array.nbytes
        if size <= EXAMPLE_LIMIT_BYTES:
            self.example = inputs

    def ask_prepare(self, raw: bytes, deadline: float) -> Asked[Prepared] | None:
        """Of a pipeline worker, where it is too dear for the loop; None: `prepare_here`. Raises Shed."""
        return self.pool.prepare(raw, deadline) if self.plan.prepares_apart(len(raw)) else None

    def prepare_here(self, raw: bytes) -> Prepared:
        """Raises InputError."""
        assert self.plan.pre is not None, "ask_prepare says where"
        return self.plan.pre.prepare(raw)

    async def prepare(self, raw: bytes, deadline: float) -> Prepared:
        """Wherever it belongs. Raises InputError, Shed, TimedOut, PipelineFault."""
        asked = self.ask_prepare(raw, deadline)
        return self.prepare_here(raw) if asked is None else await asked.answer()

    async def answers(self, outputs: Tensors, rows: int, deadline: float) -> Sequence[RowAnswer]:
        """Of outputs that the lane made none of. Raises IllegalAnswer, PipelineFault, Shed, TimedOut."""
        if self.plan.judges_apart(outputs):
            return await self.pool.judge(outputs, rows, deadline).answer()
        return self.plan.answers(outputs, rows)

    def _judge_apart(self, outputs: Tensors, rows: int, deadline: float) -> Asked[list[RowAnswer]] | None:
        """None: the lane judges on the loop."""
        if not self.plan.watched or not self.plan.judges_apart(outputs):
            return None
        return self.pool.judge(outputs, rows, deadline)

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
