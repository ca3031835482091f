"""The decision in one sentence for people: what is served, what is under way, what is in the way. Pure."""

from collections.abc import Sequence
from typing import assert_never

from registry.contract.nodes import SlotPhase, SlotReport
from serving.agent.actions import (
    Action,
    Adopt,
    Confirm,
    Evict,
    Fetch,
    ForgetBad,
    Publish,
    StartEngine,
    StopEngine,
)
from serving.agent.loading import megabytes
from serving.agent.shares import requested
from serving.agent.snapshot import Holding, Snapshot
from serving.agent.tables import Tables
from serving.control import TableEntry

LIMIT = 2000


def says(steady: str, actions: Sequence[Action]) -> str:
    """What holds, and what is done now. At most 2,000 characters, whole clauses separated by `; `."""
    clauses = [steady, *(clause for action in actions if (clause := _doing(action)))]
    return "; ".join(clauses)[:LIMIT]


def holds(snapshot: Snapshot, made: Tables, slots: Sequence[SlotReport]) -> str:
    """What the gateways are told to do, what is awaited, and what is in the way."""
    clauses: list[str] = []
    if snapshot.draining:
        clauses.append("draining: readiness is off, requests are still answered")
    if not made.entries:
        clauses.append("nothing is assigned to this node yet")
    for entry in made.entries:
        held = made.holdings[entry.deployment]
        clauses.append(_state(entry, held, entry.deployment in made.expired))
    clauses += [_trouble(slot) for slot in slots if slot.phase is SlotPhase.FAILED]
    clauses += snapshot.notes
    return "; ".join(dict.fromkeys(clauses))


def _state(entry: TableEntry, held: Holding, expired: bool) -> str:
    parts = " + ".join(f"{arm.version} {arm.share / 100:g} %" for arm in entry.arms if arm.share)
    wanted = held.serving is not None and bool(requested(held.serving))
    nothing = "nothing (503) until an arm is ready" if wanted else "nothing (503), its route is empty"
    text = f"{entry.deployment} at generation {entry.fence.generation} routes {parts or nothing}"
    if expired:
        text += ", the canary's lease is over without the registry: stable takes its share"
    if held.override is not None:
        text += f", by direct rollback {held.override.id} of {held.override.by}"
    if entry.fence != held.target.fence:
        text += f", until generation {held.target.fence.generation} has its arms ready"
    return text


def _doing(action: Action) -> str:
    match action:
        case Fetch(engine):
            return f"fetches engine {engine.digest[:19]} ({megabytes(engine.size)})"
        case StartEngine(key, arm, again):
            return f"{'restarts' if again else 'loads'} {arm.version} for {key.deployment}"
        case StopEngine(key, reason):
            return f"unloads {key.arm[:12]} of {key.deployment}: {reason}"
        case Publish(entries):
            return f"sends the table of {len(entries)} deployment(s) to its gateways"
        case Confirm(deployment, fence, moment):
            return f"confirms {deployment} generation {fence.generation} {moment}"
        case ForgetBad(digest):
            return f"tries engine {digest[:19]} again, as asked"
        case Evict(digest):
            return f"deletes the unused engine {digest[:19]}"
        case Adopt():
            return ""
        case _:
            assert_never(action)


def _trouble(slot: SlotReport) -> str:
    return f"{slot.version} for {slot.deployment} is not loaded: {slot.reason}".replace(
        "is not loaded: not loaded: ", "is not loaded: "
    )
