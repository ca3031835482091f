"""Puts the parts of a node together, runs them, and takes them down in order."""

import asyncio
import logging
import signal
import socket
from collections.abc import Awaitable, Callable
from importlib import metadata
from uuid import uuid4

from registry.client import AsyncClient
from registry.contract.admin import AdminAnswer
from registry.contract.nodes import Override
from serving.agent.admin import AdminSocket
from serving.agent.assignment import AssignmentPoll, ReadAssignment
from serving.agent.confirm import Confirmations
from serving.agent.counting import forget_incarnation
from serving.agent.cycle import Cycle
from serving.agent.engines import Engines
from serving.agent.fetch import Fetcher
from serving.agent.gateways import Gateways
from serving.agent.hardware import memory_free
from serving.agent.ledger import Ledger
from serving.agent.reports import Facts, Reports
from serving.agent.snapshot import SlotKey
from serving.agent.state import Identity, StateDirectory
from serving.control import EngineLost
from serving.settings import NodeSettings

PROBE_EVERY_S = 60.0
NOTICE_S = 0.5
LAST_REPORT_S = 3.0

log = logging.getLogger("agent")


class Agent:
    """One node, from its identity on. `address`: what callers are told."""

    def __init__(
        self,
        settings: NodeSettings,
        state: StateDirectory,
        identity: Identity,
        listener: socket.socket,
        address: str,
    ) -> None:
        self._settings = settings
        self._state = state
        self._identity = identity
        self._address = address
        self._stop = asyncio.Event()
        self.incarnation = f"inc_{uuid4().hex}"
        self._ledger = Ledger(state, identity.registry_id)
        self._client = AsyncClient(settings.registry, identity.token)
        self._fetcher = Fetcher(settings.registry, identity.token, state, self._wake, self._ledger.mark_bad)
        self._engines = Engines(
            state, settings.threads, self._wake, self._ledger.mark_bad, damaged=self._fetcher.drop
        )
        self._gateways = Gateways(
            state, self.incarnation, identity.registry_id, listener, settings.workers, self._wake, self._lost
        )
        self._reports = Reports(
            self._client,
            identity.node,
            self.incarnation,
            state.root,
            _version(),
            self._facts,
            self._ledger.contact,
        )
        self._confirmations = Confirmations(self._client, identity.node, self._reports.told_before)
        self._cycle = Cycle(
            self._ledger,
            self._fetcher,
            self._engines,
            self._gateways,
            self._confirmations,
            self.incarnation,
            self._reports.nudge,
        )
        self._poll = AssignmentPoll(
            settings.registry, identity.node, identity.token, self._ledger.etag, self._arrived, self._contact
        )
        self._admin = self._admin_socket()

    def _admin_socket(self) -> AdminSocket:
        return AdminSocket(
            self._state.run / "admin.sock",
            lambda deployment: self._ledger.holdings.get(deployment),
            self._override,
            self._look,
        )

    async def run(self) -> None:
        """Until SIGTERM or SIGINT; then drains, reports for the last time and ends its children."""
        loop = asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, self._stop.set)
        await self._gateways.start()
        await self._admin.start()
        tasks = [
            asyncio.create_task(_forever("decisions", self._cycle.run)),
            asyncio.create_task(_forever("assignment", self._poll.run)),
            asyncio.create_task(
                _forever("reports", lambda: self._reports.run(lambda: self._ledger.report_every_s))
            ),
            asyncio.create_task(_forever("probes", self._probe)),
        ]
        log.info("node %s (%s) listens on %s", self._identity.node, self.incarnation, self._address)
        await self._stop.wait()
        await self._close(tasks)

    async def _close(self, tasks: list[asyncio.Task[None]]) -> None:
        """Readiness off, requests inside end, workers end, last report, engines end."""
        log.info("stopping: readiness is off, requests inside may take %g s", self._settings.drain_s)
        self._cycle.stopping = True
        self._cycle.wake()
        await asyncio.sleep(NOTICE_S)
        await self._gateways.close(self._settings.drain_s)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        self._cycle.turn()
        if self._reports.told_before.is_set():
            try:
                async with asyncio.timeout(LAST_REPORT_S):
                    if await self._reports.send():
                        forget_incarnation(self._state.root, self.incarnation)
            except TimeoutError:
                log.warning("the last report did not get through, the next start sends it")
        await self._confirmations.close(1.0)
        self._admin.close()
        await self._fetcher.close()
        await self._engines.close(self._settings.drain_s)
        await self._client.close()
        log.info("stopped")

    def _wake(self) -> None:
        self._cycle.wake()

    def _arrived(self, read: ReadAssignment, etag: str) -> None:
        """Looked at once: a switch waits for no turn of the loop."""
        self._ledger.take(read, etag)
        self._cycle.turn()

    def _override(self, override: Override) -> str:
        refused = self._ledger.override(override)
        self._cycle.turn()
        return refused

    def _contact(self) -> None:
        was = self._ledger.last_contact
        self._ledger.contact()
        if was is None:
            self._cycle.wake()

    def _lost(self, message: EngineLost) -> None:
        self._engines.replace(SlotKey(message.deployment, message.arm), message.reason)

    def _facts(self) -> Facts:
        decision = self._cycle.decision
        return Facts(
            slots=decision.slots,
            deployments=decision.deployments,
            overrides=self._ledger.overrides,
            memory_free=memory_free(),
            address=self._address,
            says=decision.says,
            alive=self._gateways.alive,
        )

    def _look(self) -> AdminAnswer:
        decision = self._cycle.decision
        troubles = [text for text in (self._poll.trouble, self._reports.trouble) if text]
        return AdminAnswer(
            node=self._identity.node,
            says="; ".join([decision.says, *dict.fromkeys(troubles)]),
            slots=decision.slots,
            deployments=decision.deployments,
        )

    async def _probe(self) -> None:
        """A sign of life from every engine; from those without traffic a real inference, so that a
        standby that died is known before it is needed."""
        while True:
            await asyncio.sleep(PROBE_EVERY_S)
            sharing = {
                SlotKey(name, arm.arm)
                for name, published in self._gateways.published.items()
                for arm in published.entry.arms
                if arm.share
            }
            for key in list(self._engines.slots()):
                await self._engines.probe(key, infer=key not in sharing)


async def _forever(name: str, run: Callable[[], Awaitable[None]]) -> None:
    """A fault in one part must not take the others with it: it is logged and the part goes on."""
    while True:
        try:
            await run()
        except Exception:
            log.exception("%s failed, going on", name)
            await asyncio.sleep(1)


def _version() -> str:
    try:
        return metadata.version("slipway")
    except metadata.PackageNotFoundError:
        return "source"
