"""The state of one gateway worker: its routing, the slots and books behind it, and how a table is taken."""

import logging
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from registry.contract.identity import ArmId
from registry.contract.routes import Fence
from serving.control import ArmEntry, Table, TableEntry, blob_path
from serving.gateway.book import Book
from serving.gateway.deadlines import DeadlineSweep
from serving.gateway.drain import Drain
from serving.gateway.faults import Rerouted, Withdrawn
from serving.gateway.mirroring import Mirror
from serving.gateway.settings import GatewaySettings
from serving.gateway.slot import Slot, all_connected
from serving.gateway.table import EMPTY, Deployment, Routing, build
from serving.pipeline.errors import PipelineMismatch
from serving.telemetry.counterfile import CounterFile, CounterKey, counter_path

CONNECT_S = 0.4
"""The agent kills a worker that is silent for a second after a table."""

log = logging.getLogger("slipway.gateway")


@dataclass(frozen=True, slots=True)
class Identity:
    """`state`: the node's state directory."""

    worker: int
    incarnation: str
    state: Path


class Gateway:
    """`on_drained` and `on_lost` tell the agent; set by whoever holds the connection to it."""

    def __init__(self, identity: Identity, settings: GatewaySettings) -> None:
        self.identity = identity
        self.settings = settings
        self.routing: Routing = EMPTY
        self.leaving = False
        """SIGTERM came: not ready any more."""
        self.sweep = DeadlineSweep()
        self.mirror = Mirror()
        self.on_drained: Callable[[str, Fence], None] = lambda deployment, fence: None
        self.on_lost: Callable[[str, ArmId, str], None] = lambda deployment, arm, reason: None
        self._slots: dict[tuple[str, str], Slot] = {}
        self._books: dict[tuple[str, int, str], Book] = {}
        self._drains: dict[str, Drain] = {}

    @property
    def draining(self) -> bool:
        return self.leaving or self.routing.draining

    async def take(self, table: Table) -> None:
        """Routes by this table from now on. New engines are connected first, and no request fails by it."""
        usable = table.model_copy(update={"entries": tuple(self._usable(entry) for entry in table.entries)})
        slots = [self._slot(entry, arm) for entry in usable.entries for arm in entry.arms]
        for slot, arm in zip(slots, (arm for e in usable.entries for arm in e.arms), strict=True):
            slot.point_at(arm.socket)
        await all_connected(slots, CONNECT_S)
        before = self.routing
        self.routing = build(usable, self._slot, self._book)
        for name, old in before.deployments.items():
            self._retire(old, self.routing.deployments.get(name))
        for name, new in self.routing.deployments.items():
            self._drain(before.deployments.get(name), new)
        self.mirror.forget(set(self.routing.deployments))
        self._close_unused()

    def close(self) -> None:
        """At the end of the process: engines are let go, counter files stay."""
        for slot in self._slots.values():
            slot.close()
        for book in self._books.values():
            book.file.close()

    # ── Slots and books ──

    def _usable(self, entry: TableEntry) -> TableEntry:
        """Without arms whose contract contradicts itself: one such version must not stop the others."""
        arms: list[ArmEntry] = []
        for arm in entry.arms:
            try:
                self._slot(entry, arm)
            except PipelineMismatch as error:
                log.error("%s %s is not served: %s", entry.deployment, arm.version, error)
            else:
                arms.append(arm)
        return entry.model_copy(update={"arms": tuple(arms)})

    def _slot(self, entry: TableEntry, arm: ArmEntry) -> Slot:
        key = (entry.deployment, arm.arm)
        slot = self._slots.get(key)
        if slot is None:
            slot = self._slots[key] = Slot(
                arm,
                self.settings,
                lambda reason: self.on_lost(entry.deployment, arm.arm, reason),
                {path: blob_path(self.identity.state, digest) for path, digest in arm.files.items()},
            )
        return slot

    def _book(self, entry: TableEntry, arm: ArmEntry) -> Book:
        key = (entry.deployment, entry.fence.generation, arm.arm)
        book = self._books.get(key)
        if book is None:
            book = self._books[key] = Book(self._counter_file(entry, arm))
        return book

    def _counter_file(self, entry: TableEntry, arm: ArmEntry) -> CounterFile:
        key = CounterKey(
            incarnation=self.identity.incarnation,
            worker=self.identity.worker,
            deployment=entry.deployment,
            generation=entry.fence.generation,
            arm=arm.arm,
            version=arm.version,
        )
        try:
            return CounterFile.create(counter_path(self.identity.state, key), key, entry.edges)
        except OSError as error:
            log.error("requests of %s are not counted: %s", entry.deployment, error)
            return CounterFile.unbacked(key, entry.edges)

    def _close_unused(self) -> None:
        routed = {
            (deployment.entry.deployment, arm.entry.arm)
            for deployment in self.routing.deployments.values()
            for arm in deployment.arms
        }
        current = {
            (deployment.entry.deployment, deployment.entry.fence.generation)
            for deployment in self.routing.deployments.values()
        }
        for book_key, book in list(self._books.items()):
            if book_key[:2] not in current and book.close_if_idle():
                del self._books[book_key]
        busy = {(deployment, arm) for deployment, _, arm in self._books}
        for slot_key in self._slots.keys() - routed - busy:
            self._slots.pop(slot_key).close()

    # ── What a new table takes away ──

    def _retire(self, old: Deployment, new: Deployment | None) -> None:
        """Arms that lost their share: what waits there is given on, or waits for its engine's return."""
        regenerated = new is None or new.entry.fence != old.entry.fence
        if new is not None and not new.serving and not regenerated:
            return
        kept = {arm.entry.arm for arm in new.serving} if new is not None else set()
        for arm in old.arms:
            if arm.entry.arm not in kept:
                arm.slot.lane.leave(Rerouted if regenerated else Withdrawn)

    def _drain(self, old: Deployment | None, new: Deployment) -> None:
        if old is not None and old.entry.fence == new.entry.fence:
            return
        name, fence = new.entry.deployment, new.entry.fence
        earlier = self._drains.pop(name, None)
        if earlier is not None:
            earlier.stop()
        serving = {arm.entry.arm for arm in new.serving}
        books = [
            book
            for (deployment, generation, arm), book in self._books.items()
            if deployment == name and generation != fence.generation and arm not in serving
        ]
        lanes = [
            slot.lane
            for (deployment, arm), slot in self._slots.items()
            if deployment == name and arm not in serving
        ]
        drain = self._drains[name] = Drain(fence, books, lanes, lambda: self._drained(name, fence))
        drain.begin(new.entry.drain_limit_s)

    def _drained(self, deployment: str, fence: Fence) -> None:
        drain = self._drains.get(deployment)
        if drain is not None and drain.fence == fence:
            del self._drains[deployment]
            self._close_unused()
            self.on_drained(deployment, fence)
