"""The table for the gateways: fragments in effect, held arms, shares over ready arms. Pure."""

from collections.abc import Mapping
from dataclasses import dataclass, replace

from registry.contract.nodes import AssignedArm, Fragment, SlotPhase
from registry.contract.routes import ArmRole
from serving.agent.actions import Adopt, Publish
from serving.agent.loading import blobs, held_arms
from serving.agent.shares import effective, same_routing, satisfied
from serving.agent.snapshot import Holding, Published, Slot, Snapshot
from serving.control import ArmEntry, TableEntry

LOAD_BYTES_A_SECOND = 40e6
LONGEST_ESTIMATE_S = 60.0
AFTER_CRASH_S = 5.0


@dataclass(frozen=True, slots=True)
class Tables:
    """`publish` is None when the gateways have all of it already. `entries`: all
    of it. `holdings`: adoptions applied."""

    entries: tuple[TableEntry, ...]
    adopt: Adopt | None
    publish: Publish | None
    holdings: Mapping[str, Holding]
    complete: frozenset[str]
    expired: frozenset[str]


def tables(snapshot: Snapshot) -> Tables:
    """Build every deployment's entry.

    A target takes effect only when every arm it gives traffic to is ready (a cold rollback loads
    first and switches then); until then the fragment in effect goes on.
    """
    holdings: dict[str, Holding] = {}
    entries: list[TableEntry] = []
    adopted: list[Fragment] = []
    complete: set[str] = set()
    expired: set[str] = set()
    for deployment, held in sorted(snapshot.holdings.items()):
        slots = {key.arm: slot for key, slot in snapshot.slots.items() if key.deployment == deployment}
        ready = frozenset(arm for arm, slot in slots.items() if slot.ready)
        serving = _in_effect(held, ready)
        if serving != held.serving:
            adopted.append(serving)
        now = replace(held, serving=serving)
        holdings[deployment] = now
        result = effective(serving, ready, snapshot.leased)
        if result.complete and serving == held.target:
            complete.add(deployment)
        if result.lease_expired:
            expired.add(deployment)
        entries.append(_entry(snapshot, now, serving, slots, result.shares))
    done = frozenset(complete)
    publish = Publish(tuple(entries), done, snapshot.draining)
    return Tables(
        entries=publish.entries,
        adopt=Adopt(tuple(adopted)) if adopted else None,
        publish=None if _known(snapshot, publish) else publish,
        holdings=holdings,
        complete=done,
        expired=frozenset(expired),
    )


def published_by(before: Mapping[str, Published], publish: Publish, seq: int) -> dict[str, Published]:
    """What stands at the gateways once table `seq` went out; an entry keeps the table it first stood in."""
    after: dict[str, Published] = {}
    for entry in publish.entries:
        old = before.get(entry.deployment)
        since = old.seq if old is not None and old.entry == entry else seq
        after[entry.deployment] = Published(entry, since, entry.deployment in publish.complete)
    return after


def _known(snapshot: Snapshot, publish: Publish) -> bool:
    """True when the gateways were sent exactly this already."""
    before = snapshot.published
    return (
        snapshot.published_draining == publish.draining
        and tuple(before[name].entry for name in sorted(before)) == publish.entries
        and frozenset(name for name, item in before.items() if item.complete) == publish.complete
    )


def _in_effect(held: Holding, ready: frozenset[str]) -> Fragment:
    if held.serving is None or satisfied(held.target, ready) or same_routing(held.serving, held.target):
        return held.target
    return held.serving


def _entry(
    snapshot: Snapshot,
    held: Holding,
    serving: Fragment,
    slots: Mapping[str, Slot],
    shares: Mapping[str, int],
) -> TableEntry:
    """Arms of the fragment in effect, of the target, and of other held slots (they may be asked for by
    version). An arm that nothing holds stays in, without a share, until it drained; then it is left out,
    which is the first step of its unloading."""
    names = held_arms(held)
    reached = snapshot.drained.get(serving.deployment)
    if reached is None or not (reached == serving.fence or reached.supersedes(serving.fence)):
        names |= {name for name, slot in slots.items() if slot.ready}
    specs: dict[str, AssignedArm] = {
        name: slot.spec.model_copy(update={"role": ArmRole.STANDBY}) for name, slot in slots.items()
    }
    specs.update({arm.arm: arm for arm in held.target.arms})
    specs.update({arm.arm: arm for arm in serving.arms})
    arms = tuple(
        _arm(spec, slots.get(name), shares.get(name, 0))
        for name, spec in sorted(specs.items())
        if name in names and spec.engine is not None
    )
    return TableEntry(
        deployment=serving.deployment,
        model=serving.model,
        fence=serving.fence,
        unit=serving.unit,
        salt=serving.salt,
        arms=arms,
        mirror=serving.mirror,
        edges=serving.edges,
        drain_limit_s=serving.drain_limit_s,
        estimate_s=1.0 if shares else _estimate(snapshot, serving, slots),
    )


def _arm(spec: AssignedArm, slot: Slot | None, share: int) -> ArmEntry:
    engine = spec.engine
    assert engine is not None
    return ArmEntry(
        arm=spec.arm,
        version=spec.version,
        role=spec.role,
        share=share,
        engine=engine.digest,
        socket=slot.socket if slot is not None and slot.ready else None,
        batchable=engine.batchable,
        contract=spec.contract,
        files={file.path: file.digest for file in spec.files},
    )


def _estimate(snapshot: Snapshot, serving: Fragment, slots: Mapping[str, Slot]) -> float:
    """Seconds until something can answer: bytes still to come, then the load; whole seconds, so that
    the table doesn't change with every look."""
    longest = 1.0
    for arm in serving.arms:
        slot = slots.get(arm.arm)
        if arm.share == 0 or arm.engine is None or (slot is not None and slot.ready):
            continue
        missing = sum(blob.size for blob in blobs(arm) if blob.digest not in snapshot.disk)
        longest = max(longest, 2.0 + missing / LOAD_BYTES_A_SECOND)
        if slot is not None and slot.phase is SlotPhase.FAILED:
            longest = max(longest, AFTER_CRASH_S)
        if arm.engine.digest in snapshot.bad:
            longest = LONGEST_ESTIMATE_S
    return float(min(LONGEST_ESTIMATE_S, round(longest)))
