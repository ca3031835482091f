"""Which arms to fetch and load next, and what is said of each slot. Pure."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Literal

from registry.contract.nodes import AssignedArm, EngineRef, SlotPhase, SlotReport
from registry.contract.routes import ArmRole
from registry.contract.versions import FileEntry
from serving.agent.actions import Action, Fetch, ForgetBad, StartEngine
from serving.agent.shares import requested
from serving.agent.snapshot import IN_PROGRESS, BadMark, Holding, Slot, SlotKey, Snapshot, fence_key

FETCHES = 2
_RANK = {ArmRole.STABLE: 0, ArmRole.CANARY: 1, ArmRole.SHADOW: 2, ArmRole.STANDBY: 3}


@dataclass(frozen=True, slots=True)
class Wanted:
    """An arm that must be loaded. `serves`: a share waits for it."""

    key: SlotKey
    arm: AssignedArm
    serves: bool


@dataclass(slots=True)
class Plan:
    """`reports`: a sentence's worth on every arm that has no engine process. `wake`: retry times."""

    actions: list[Action] = field(default_factory=list)
    reports: dict[SlotKey, SlotReport] = field(default_factory=dict)
    wake: list[float] = field(default_factory=list)


@dataclass(slots=True)
class _Budget:
    memory: int
    fetches: int
    loads: int


def wanted(holdings: Mapping[str, Holding]) -> list[Wanted]:
    """All arms to be loaded: those that traffic waits for first, the largest share before the others, and
    standbys last.

    What `serving` still needs is loaded too: after a restart a target that can't be loaded must not
    leave the node without the arm that served before.
    """
    found: dict[SlotKey, tuple[tuple[int, int, int, str], Wanted]] = {}
    for deployment, held in sorted(holdings.items()):
        for order, arm in _arms(held):
            key = SlotKey(deployment, arm.arm)
            rank = (order, -arm.share, _RANK[arm.role], deployment)
            if key not in found:
                found[key] = (rank, Wanted(key, arm, order < 2))
    return [item for _, item in sorted(found.values(), key=lambda pair: pair[0])]


def _arms(held: Holding) -> Iterator[tuple[int, AssignedArm]]:
    target = held.target
    yield from ((0, arm) for arm in target.arms if arm.share > 0)
    if held.serving is not None:
        serving = requested(held.serving)
        yield from ((1, arm) for arm in held.serving.arms if arm.arm in serving)
    yield from ((2, arm) for arm in target.arms if arm.share == 0)
    if held.serving is not None:
        yield from ((3, arm) for arm in held.serving.arms if arm.arm in target.keep)


def held_arms(held: Holding) -> frozenset[str]:
    """Arms that must not be unloaded: named by the assignment, or with a share in what is served."""
    names = {arm.arm for arm in held.target.arms} | set(held.target.keep)
    if held.serving is not None:
        names |= set(requested(held.serving))
    return frozenset(names)


def plan(snapshot: Snapshot) -> Plan:
    """Fetch, start, restart, refuse: in order of need, within what memory and cores allow."""
    made = Plan()
    running = [slot for slot in snapshot.slots.values() if slot.phase in IN_PROGRESS]
    pending = sum(_memory(slot.spec) for slot in running)
    coming = sum(1 for item in snapshot.downloads.values() if item.running)
    budget = _Budget(snapshot.memory_free - pending, FETCHES - coming, snapshot.loads - len(running))
    for item in wanted(snapshot.holdings):
        _consider(snapshot, item, budget, made)
    return made


def _consider(snapshot: Snapshot, item: Wanted, budget: _Budget, made: Plan) -> None:
    engine = item.arm.engine
    if engine is None:
        made.reports[item.key] = _report(item, SlotPhase.FAILED, item.arm.reason or _no_engine(item.arm))
        return
    slot = snapshot.slots.get(item.key)
    if slot is not None and slot.phase is not SlotPhase.FAILED:
        return
    for blob in blobs(item.arm):
        mark = snapshot.bad.get(blob.digest)
        if mark is not None:
            if not _retry_asked(snapshot.holdings, engine.digest, mark):
                made.reports[item.key] = _report(item, SlotPhase.FAILED, mark.reason, bad=True)
                return
            made.actions.append(ForgetBad(blob.digest))
    if slot is not None and slot.retry_at is not None and snapshot.now < slot.retry_at:
        made.wake.append(slot.retry_at)
        made.reports[item.key] = _report(item, SlotPhase.FAILED, slot.reason)
        return
    if engine.memory_bytes > budget.memory:
        made.reports[item.key] = _report(item, SlotPhase.FAILED, _refusal(snapshot, item.arm, engine, budget))
        return
    budget.memory -= engine.memory_bytes
    missing = next((blob for blob in blobs(item.arm) if blob.digest not in snapshot.disk), None)
    if missing is not None:
        _fetch(snapshot, item, missing, budget, made)
    elif budget.loads > 0:
        budget.loads -= 1
        made.actions.append(StartEngine(item.key, item.arm, again=slot is not None))
        made.reports[item.key] = _report(item, SlotPhase.VERIFYING, "starts its engine")
    else:
        made.reports[item.key] = _report(
            item, SlotPhase.FETCHING, "waits for another load to end", progress=1.0
        )


def blobs(arm: AssignedArm) -> tuple[EngineRef | FileEntry, ...]:
    """All bytes that an arm needs on the disk, its engine first."""
    return () if arm.engine is None else (arm.engine, *arm.files)


def _fetch(
    snapshot: Snapshot, item: Wanted, blob: EngineRef | FileEntry, budget: _Budget, made: Plan
) -> None:
    download = snapshot.downloads.get(blob.digest)
    if download is None or not download.running:
        retry_at = download.retry_at if download else None
        if download is not None and retry_at is not None and snapshot.now < retry_at:
            made.wake.append(retry_at)
            made.reports[item.key] = _report(item, SlotPhase.FETCHING, download.reason, download.progress)
            return
        started = any(
            isinstance(action, Fetch) and action.blob.digest == blob.digest for action in made.actions
        )
        if not started and budget.fetches > 0:
            budget.fetches -= 1
            made.actions.append(Fetch(blob))
        made.reports[item.key] = _report(item, SlotPhase.FETCHING, "", download.progress if download else 0.0)
        return
    made.reports[item.key] = _report(item, SlotPhase.FETCHING, download.reason, download.progress)


def _retry_asked(holdings: Mapping[str, Holding], digest: str, mark: BadMark) -> bool:
    return bool(listing(holdings, digest) - mark.listed)


def listing(holdings: Mapping[str, Holding], digest: str) -> frozenset[tuple[str, tuple[str, int, int]]]:
    """The generations held now that ask for a retry of a digest."""
    return frozenset(
        (name, fence_key(held.target.fence))
        for name, held in holdings.items()
        if digest in held.target.retry_bad
    )


def _refusal(snapshot: Snapshot, arm: AssignedArm, engine: EngineRef, budget: _Budget) -> str:
    loaded = [slot for slot in snapshot.slots.values() if slot.phase is not SlotPhase.FAILED]
    names = (
        ", ".join(f"{slot.spec.version} {megabytes(_memory(slot.spec))}" for slot in loaded) or "no engine"
    )
    return (
        f"not loaded: {arm.version} needs {megabytes(engine.memory_bytes)} of memory and "
        f"{megabytes(max(0, budget.memory))} are free (loaded: {names}); give the node more memory or "
        f"release an arm that it keeps"
    )


def _no_engine(arm: AssignedArm) -> str:
    return f"no engine of {arm.version} was built for any target of this node; build one and release it again"


def _memory(arm: AssignedArm) -> int:
    return arm.engine.memory_bytes if arm.engine else 0


def megabytes(size: int) -> str:
    return f"{size / 1e6:.1f} MB"


def _report(
    item: Wanted, phase: SlotPhase, reason: str, progress: float | None = None, bad: bool = False
) -> SlotReport:
    engine = item.arm.engine
    return SlotReport(
        deployment=item.key.deployment,
        arm=item.key.arm,
        version=item.arm.version,
        engine=engine.digest if engine else None,
        phase=phase,
        reason=reason,
        progress=progress,
        bad_digest=bad,
        standby="disk" if item.arm.role is ArmRole.STANDBY and phase is not SlotPhase.FETCHING else None,
    )


def slot_report(slot: Slot, standby: bool, bad: bool) -> SlotReport:
    """What is said of an engine process."""
    level: Literal["warm", "disk"] | None = None
    if standby:
        level = "warm" if slot.ready else "disk"
    return SlotReport(
        deployment=slot.key.deployment,
        arm=slot.key.arm,
        version=slot.spec.version,
        engine=slot.spec.engine.digest if slot.spec.engine else None,
        phase=slot.phase,
        reason=slot.reason,
        load_ms=dict(slot.load_ms),
        memory_bytes=slot.memory_bytes,
        standby=level,
        bad_digest=bad,
    )
