"""A node without processes: it does what decisions ask for, and lets a test move everything else."""

from dataclasses import dataclass, field, replace

from registry.contract.nodes import Assignment, SlotPhase
from registry.contract.routes import Fence
from serving.agent.actions import (
    Action,
    Adopt,
    Confirm,
    Decision,
    Evict,
    Fetch,
    ForgetBad,
    Publish,
    StartEngine,
    StopEngine,
)
from serving.agent.decide import decide
from serving.agent.holdings import merge
from serving.agent.loading import listing
from serving.agent.snapshot import (
    IN_PROGRESS,
    BadMark,
    Download,
    Holding,
    Moment,
    Published,
    Slot,
    SlotKey,
    Snapshot,
    fence_key,
)
from serving.agent.tables import published_by
from tests.serving.agent.making import MB, REGISTRY


@dataclass
class World:
    now: float = 1000.0
    last_contact: float | None = 1000.0
    memory: int = 100 * MB
    holdings: dict[str, Holding] = field(default_factory=dict)
    slots: dict[SlotKey, Slot] = field(default_factory=dict)
    disk: set[str] = field(default_factory=set)
    downloads: dict[str, Download] = field(default_factory=dict)
    bad: dict[str, BadMark] = field(default_factory=dict)
    published: dict[str, Published] = field(default_factory=dict)
    published_draining: bool = False
    seq: int = 0
    taken: int | None = None
    drained: dict[str, Fence] = field(default_factory=dict)
    confirmed: set[Moment] = field(default_factory=set)
    sockets: int = 0
    done: list[Action] = field(default_factory=list)

    def snapshot(self) -> Snapshot:
        used = sum(
            slot.spec.engine.memory_bytes
            for slot in self.slots.values()
            if slot.spec.engine and slot.phase in (SlotPhase.READY, SlotPhase.UNLOADING)
        )
        return Snapshot(
            now=self.now,
            last_contact=self.last_contact,
            lease_s=120,
            holdings=dict(self.holdings),
            slots=dict(self.slots),
            disk=tuple(sorted(self.disk)),
            downloads=dict(self.downloads),
            bad=dict(self.bad),
            memory_free=self.memory - used,
            published=dict(self.published),
            taken=self.taken,
            drained=dict(self.drained),
            confirmed=frozenset(self.confirmed),
            published_draining=self.published_draining,
            loads=2,
        )

    def turn(self) -> Decision:
        before = self.snapshot()
        decision = decide(before)
        self._check_memory(before, decision)
        for action in decision.actions:
            self.act(action)
            self.done.append(action)
        return decision

    def settle(self) -> Decision:
        """Turns until nothing is left to do with the world as it is."""
        for _ in range(20):
            decision = self.turn()
            if not decision.actions:
                return decision
        raise AssertionError(f"the agent doesn't come to rest: {decision.says}")

    def assign(self, assignment: Assignment) -> tuple[str, ...]:
        merged = merge(self.holdings, assignment, REGISTRY)
        self.holdings = dict(merged.holdings)
        return merged.notes

    def act(self, action: Action) -> None:
        match action:
            case Fetch(engine):
                assert engine.digest not in self.disk
                self.downloads[engine.digest] = Download(0.0)
            case StartEngine(key, spec):
                assert spec.engine is not None and spec.engine.digest in self.disk
                assert key not in self.slots or self.slots[key].phase is SlotPhase.FAILED
                self.slots[key] = Slot(key, spec, SlotPhase.VERIFYING)
            case StopEngine(key):
                self._check_stop(key)
                self.slots[key] = replace(self.slots[key], phase=SlotPhase.UNLOADING, socket=None)
            case Adopt(fragments):
                for part in fragments:
                    self.holdings[part.deployment] = replace(self.holdings[part.deployment], serving=part)
            case Publish():
                self.seq += 1
                self.published = published_by(self.published, action, self.seq)
                self.published_draining = action.draining
            case Confirm(deployment, fence, moment):
                item = Moment(deployment, fence_key(fence), moment == "drained")
                assert item not in self.confirmed
                self.confirmed.add(item)
            case ForgetBad(digest):
                del self.bad[digest]
            case Evict(digest):
                self.disk.discard(digest)

    def _check_memory(self, before: Snapshot, decision: Decision) -> None:
        """What is begun now fits beside what is on its way."""
        coming = [slot.spec for slot in before.slots.values() if slot.phase in IN_PROGRESS]
        begun = [action.arm for action in decision.actions if isinstance(action, StartEngine)]
        needed = sum(spec.engine.memory_bytes for spec in begun if spec.engine)
        pending = sum(spec.engine.memory_bytes for spec in coming if spec.engine)
        assert not begun or needed + pending <= before.memory_free

    def _check_stop(self, key: SlotKey) -> None:
        """Every gateway routes without the engine, and its last work ended."""
        slot = self.slots[key]
        if slot.socket is None:
            return
        published = self.published[key.deployment]
        assert self.taken is not None and self.taken >= published.seq
        assert all(item.socket != slot.socket for item in published.entry.arms)
        reached = self.drained[key.deployment]
        assert fence_key(reached) >= fence_key(published.entry.fence)

    # ── What happens to the node ──

    def fetched(self, digest: str) -> None:
        if digest in self.downloads:
            del self.downloads[digest]
            self.disk.add(digest)

    def loaded(self, key: SlotKey) -> None:
        if key in self.slots and self.slots[key].phase is SlotPhase.VERIFYING:
            self.sockets += 1
            socket = f"/run/e{self.sockets}.sock"
            self.slots[key] = replace(self.slots[key], phase=SlotPhase.READY, socket=socket)

    def refused(self, key: SlotKey) -> None:
        """The runtime can't load the file."""
        slot = self.slots.get(key)
        if slot is not None and slot.phase is SlotPhase.VERIFYING and slot.spec.engine:
            del self.slots[key]
            digest = slot.spec.engine.digest
            self.bad[digest] = BadMark("not a model", listing(self.holdings, digest))

    def crashed(self, key: SlotKey, pause: float = 1.0) -> None:
        slot = self.slots.get(key)
        if slot is not None and slot.ready:
            self.slots[key] = replace(
                slot, phase=SlotPhase.FAILED, socket=None, reason="signal 9", retry_at=self.now + pause
            )

    def unloaded(self, key: SlotKey) -> None:
        if key in self.slots and self.slots[key].phase is SlotPhase.UNLOADING:
            del self.slots[key]

    def gateways_take(self) -> None:
        self.taken = self.seq

    def gateways_drain(self) -> None:
        if self.taken == self.seq:
            self.drained.update({name: item.entry.fence for name, item in self.published.items()})

    def everything_works(self, rounds: int = 60) -> None:
        """Let all that is under way end well, again and again."""
        for _ in range(rounds):
            self.now += 1
            self.last_contact = self.now
            self.settle()
            for digest in list(self.downloads):
                self.fetched(digest)
            for key in list(self.slots):
                self.loaded(key)
                self.unloaded(key)
            self.gateways_take()
            self.gateways_drain()
        self.settle()
