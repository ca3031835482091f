"""The plan of a release with "you are here", and when its next step may come."""

from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Literal

from registry.contract.deployments import Policy
from registry.contract.releases import Release, ReleasePhase
from web.views.words import percent, plain_clock, span


@dataclass(frozen=True, slots=True)
class Step:
    """`note` says how long it lasts at least, or when it was taken; empty: neither."""

    share: str
    state: Literal["done", "here", "ahead"]
    note: str


@dataclass(frozen=True, slots=True)
class Plan:
    """`place`: "step 2 of 5". `next_gate`: what the next step waits for, with a time where there is one."""

    place: str
    next_gate: str
    steps: tuple[Step, ...]


def plan(release: Release, policy: Policy, now: datetime) -> Plan:
    taken = {entry.step: entry.at for entry in reversed(release.history) if entry.generation is not None}
    steps = tuple(
        Step(percent(step.share), _state(release, at), _note(release, at, taken, now))
        for at, step in enumerate(release.plan)
    )
    here = max(release.step, -1) + 1
    place = f"step {here} of {len(release.plan)}" if here else f"before step 1 of {len(release.plan)}"
    return Plan(place, next_gate(release, policy, now), steps)


def _state(release: Release, at: int) -> Literal["done", "here", "ahead"]:
    if release.phase is ReleasePhase.COMPLETED or at < release.step:
        return "done"
    return "here" if at == release.step else "ahead"


def _note(release: Release, at: int, taken: dict[int, datetime], now: datetime) -> str:
    if at <= release.step and at in taken:
        return f"since {plain_clock(taken[at], now)}" if at == release.step else plain_clock(taken[at], now)
    dwell = release.plan[at].dwell_s
    return f"at least {span(dwell)}" if dwell else ""


def next_gate(release: Release, policy: Policy, now: datetime) -> str:
    """Empty when nothing is to follow."""
    if release.hold:
        return f"stands still: {release.hold}"
    match release.phase:
        case ReleasePhase.PREPARING:
            return "next: when the nodes are ready"
        case ReleasePhase.AWAITING_APPROVAL:
            return "next: when it is approved"
        case ReleasePhase.RUNNING:
            return _running(release, policy, now)
        case ReleasePhase.COMPLETING:
            return "next: when every node serves it"
        case _:
            return ""


def _running(release: Release, policy: Policy, now: datetime) -> str:
    if release.step + 1 >= len(release.plan):
        return ""
    share = percent(release.plan[release.step + 1].share)
    dwell_ends = release.since + timedelta(seconds=release.plan[release.step].dwell_s)
    gates = release.verdict.gates if release.verdict else ()
    waits = [gate.wait_s for gate in gates if gate.purpose == "advance" and gate.wait_s]
    moment = dwell_ends
    if waits and release.verdict is not None:
        moment = max(moment, release.verdict.at + timedelta(seconds=max(waits)))
    if moment > now:
        return f"next gate {plain_clock(moment, now)}, then {share}"
    if not policy.auto_advance:
        return f"{share} by command: slipway release advance {release.deployment}"
    return f"{share} as soon as the evidence allows"
