"""The agent's one decision: from all that is known now to what to do, and a sentence about it. Pure.

Order of the rules: the new is loaded before anything is unloaded; a table gives traffic to ready arms
only; an arm is unloaded when nothing holds it, the gateways route by a table without it, and it drained.
"""

from collections.abc import Mapping
from dataclasses import replace

from registry.contract.nodes import DeploymentReport, SlotPhase, SlotReport
from registry.contract.routes import ArmRole, Fence
from serving.agent.actions import Action, Confirm, Decision, Evict, StopEngine
from serving.agent.loading import Plan, blobs, held_arms, plan, slot_report
from serving.agent.sentence import holds, says
from serving.agent.shares import requested
from serving.agent.snapshot import IN_PROGRESS, Holding, Moment, Slot, SlotKey, Snapshot, fence_key
from serving.agent.tables import Tables, tables

UNUSED_KEPT = 5


def decide(snapshot: Snapshot) -> Decision:
    """What to do now. Repeating it without a change gives no action a second time."""
    made = tables(snapshot)
    now = replace(snapshot, holdings=made.holdings)
    loads = plan(now)
    stops = _stops(now, made)
    confirms = _confirms(now, made)
    # The table goes out first: a rollback waits for no disk.
    sent: list[Action] = [made.publish] if made.publish is not None else []
    adopted: list[Action] = [made.adopt] if made.adopt is not None else []
    actions = [*sent, *confirms, *adopted, *loads.actions, *stops, *_evictions(now)]
    slots = _slots(now, loads)
    steady = holds(now, made, slots)
    deployments = tuple(_deployment(now, made, name) for name in sorted(now.holdings))
    return Decision(
        actions=tuple(actions),
        slots=slots,
        deployments=deployments,
        says=says(steady, actions),
        steady=steady,
        wake_at=_wake(now, loads),
    )


def _stops(snapshot: Snapshot, made: Tables) -> list[Action]:
    found: list[Action] = []
    for key, slot in sorted(snapshot.slots.items()):
        held = snapshot.holdings.get(key.deployment)
        if held is None or slot.phase is SlotPhase.UNLOADING or key.arm in held_arms(held):
            continue
        if slot.socket is None:
            found.append(StopEngine(key, "no longer assigned, and was not serving"))
        elif not _comes(snapshot, held) and _gone(snapshot, made, key, slot):
            found.append(StopEngine(key, "no longer assigned; drained"))
    return found


def _comes(snapshot: Snapshot, held: Holding) -> bool:
    """True while an arm of this deployment is on its way: the new is loaded before the old goes."""
    for arm in held.target.arms:
        slot = snapshot.slots.get(SlotKey(held.target.deployment, arm.arm))
        if slot is not None and slot.phase in IN_PROGRESS:
            return True
        downloads = [snapshot.downloads.get(blob.digest) for blob in blobs(arm)]
        if slot is None and any(download is not None and download.running for download in downloads):
            return True
    return False


def _gone(snapshot: Snapshot, made: Tables, key: SlotKey, slot: Slot) -> bool:
    """True when every worker routes by a table without this engine, and its last work ended."""
    published = snapshot.published.get(key.deployment)
    if made.publish is not None or published is None or not _taken(snapshot, published.seq):
        return False
    if any(arm.socket == slot.socket for arm in published.entry.arms):
        return False
    return _at_least(snapshot.drained.get(key.deployment), published.entry.fence)


def _taken(snapshot: Snapshot, seq: int) -> bool:
    return snapshot.taken is not None and snapshot.taken >= seq


def _at_least(reached: Fence | None, fence: Fence) -> bool:
    return reached is not None and (reached == fence or reached.supersedes(fence))


def _confirms(snapshot: Snapshot, made: Tables) -> list[Action]:
    if made.publish is not None:
        return []
    found: list[Action] = []
    for name, held in sorted(snapshot.holdings.items()):
        published = snapshot.published.get(name)
        if published is None or published.entry.fence != held.target.fence:
            continue
        fence = held.target.fence
        switched = Moment(name, fence_key(fence), drained=False) in snapshot.confirmed
        if not switched and published.complete and _taken(snapshot, published.seq):
            found.append(Confirm(name, fence, "switched"))
            switched = True
        drained = Moment(name, fence_key(fence), drained=True) in snapshot.confirmed
        if switched and not drained and _at_least(snapshot.drained.get(name), fence):
            found.append(Confirm(name, fence, "drained"))
    return found


def _evictions(snapshot: Snapshot) -> list[Action]:
    """Bytes that nothing names; a few are kept, since a rollback to an earlier arm is likely."""
    named = {blob.digest for slot in snapshot.slots.values() for blob in blobs(slot.spec)}
    for held in snapshot.holdings.values():
        fragments = (held.target, *((held.serving,) if held.serving else ()))
        named |= {blob.digest for part in fragments for arm in part.arms for blob in blobs(arm)}
    unused = [digest for digest in snapshot.disk if digest not in named]
    return [Evict(digest) for digest in unused[UNUSED_KEPT:]]


def _slots(snapshot: Snapshot, loads: Plan) -> tuple[SlotReport, ...]:
    standby = {
        SlotKey(name, arm.arm)
        for name, held in snapshot.holdings.items()
        for arm in held.target.arms
        if arm.role is ArmRole.STANDBY
    }
    reports: dict[SlotKey, SlotReport] = dict(loads.reports)
    for key, slot in snapshot.slots.items():
        if key not in reports:
            bad = slot.spec.engine is not None and slot.spec.engine.digest in snapshot.bad
            reports[key] = slot_report(slot, key in standby, bad)
    return tuple(reports[key] for key in sorted(reports))


def _deployment(snapshot: Snapshot, made: Tables, name: str) -> DeploymentReport:
    """What holds at the gateways: the published entry once it is taken, else nothing is claimed yet."""
    published = snapshot.published.get(name)
    if published is None or not _taken(snapshot, published.seq):
        fence = published.entry.fence if published and _older(snapshot, name, published.entry.fence) else None
        return DeploymentReport(deployment=name, fence=fence, switched=False, drained=False)
    fence = published.entry.fence
    shares = {arm.arm: arm.share for arm in published.entry.arms if arm.share}
    confirmed = snapshot.confirmed
    return DeploymentReport(
        deployment=name,
        fence=fence,
        switched=Moment(name, fence_key(fence), drained=False) in confirmed,
        drained=Moment(name, fence_key(fence), drained=True) in confirmed,
        shares=shares,
        lease_expired=name in made.expired,
        ready=bool(shares) and _whole(snapshot.slots, snapshot.holdings[name]),
    )


def _older(snapshot: Snapshot, name: str, fence: Fence) -> bool:
    return Moment(name, fence_key(fence), drained=False) in snapshot.confirmed


def _whole(slots: Mapping[SlotKey, Slot], held: Holding) -> bool:
    """True when every arm that the target gives traffic to is ready."""
    ready = {
        key.arm for key, slot in slots.items() if key.deployment == held.target.deployment and slot.ready
    }
    return all(arm in ready for arm in requested(held.target))


def _wake(snapshot: Snapshot, loads: Plan) -> float | None:
    moments = list(loads.wake)
    if snapshot.leased and snapshot.last_contact is not None:
        moments.append(snapshot.last_contact + snapshot.lease_s)
    return min(moments, default=None)
