"""One glance: a level, a word and a sentence for a deployment, and how much it matters beside the others."""

from dataclasses import dataclass, replace
from enum import StrEnum
from typing import assert_never

from registry.contract.nodes import SlotPhase
from registry.contract.releases import Hold, Release, ReleasePhase
from registry.contract.verdicts import VerdictKind
from web.views.facts import Facts
from web.views.words import listed, nodes, percent


class Level(StrEnum):
    """Worst first. `unknown` is never green, `none` has nothing to judge."""

    BAD = "bad"
    WARN = "warn"
    UNKNOWN = "unknown"
    BUSY = "busy"
    GOOD = "good"
    NONE = "none"


GLYPHS = {
    Level.BAD: "✖",
    Level.WARN: "▲",
    Level.UNKNOWN: "?",
    Level.BUSY: "◐",
    Level.GOOD: "✔",
    Level.NONE: "○",
}


@dataclass(frozen=True, slots=True)
class Judgement:
    """`remedy` and `command`: what to do, where something is to be done."""

    level: Level
    word: str
    sentence: str
    remedy: str = ""
    command: str = ""

    @property
    def glyph(self) -> str:
        return GLYPHS[self.level]

    @property
    def rank(self) -> int:
        """0 is worst."""
        return list(Level).index(self.level)


def judge(facts: Facts) -> Judgement:
    """Silence of a node is said whatever else is, and nothing is green beside it."""
    if facts.rolling_back:
        return _rolling_back(facts)
    found = _release(facts, facts.active) if facts.active else _settled(facts)
    silent = [node.name for node in facts.silent]
    if not silent or found.level is Level.NONE:
        return found
    told = replace(found, sentence=f"{found.sentence} {listed(silent)} {_are(silent)} silent.")
    if found.level in (Level.BAD, Level.WARN):
        return told
    word = "Partly unknown" if found.level is Level.GOOD else found.word
    return replace(told, level=Level.UNKNOWN, word=word)


def _are(names: list[str]) -> str:
    return "is" if len(names) == 1 else "are"


def _rolling_back(facts: Facts) -> Judgement:
    receipt = facts.in_force
    assert receipt is not None
    switched = sum(node.state in ("switched", "drained") for node in receipt.nodes)
    return Judgement(
        Level.BAD,
        "Rolling back",
        f"{switched} of {nodes(len(receipt.nodes))} back on {facts.names(receipt.to_arm)}.",
    )


def _release(facts: Facts, release: Release) -> Judgement:
    candidate, share = facts.names(release.arm), percent(release.share)
    match release.hold:
        case Hold.FROZEN:
            return Judgement(
                Level.BAD,
                "Frozen",
                f"{candidate} stays at {share}: {_clause(release.reason)}.",
                "Look at the evidence, then roll back, or go on:",
                f"slipway release resume {release.deployment}",
            )
        case Hold.PAUSED | Hold.HELD:
            return Judgement(
                Level.WARN,
                "Paused" if release.hold is Hold.PAUSED else "Held",
                f"{candidate} stays at {share}: {_clause(release.reason)}.",
                "Go on with:",
                f"slipway release resume {release.deployment}",
            )
        case "":
            return _moving(facts, release, candidate, share)
        case _:
            assert_never(release.hold)


def _moving(facts: Facts, release: Release, candidate: str, share: str) -> Judgement:
    match release.phase:
        case ReleasePhase.AWAITING_APPROVAL:
            missing = release.approvals_needed - len(release.approvals)
            return Judgement(
                Level.BUSY,
                "Waits for approval",
                f"{candidate} needs {missing} more approval{'' if missing == 1 else 's'}.",
                "Somebody else approves it:",
                f"slipway release approve {release.deployment}",
            )
        case ReleasePhase.PREPARING:
            failed = _failed(facts)
            if failed:
                return Judgement(Level.WARN, "Preparing", f"{candidate} can't be loaded on {failed}.")
            return Judgement(Level.BUSY, "Preparing", f"Nodes load {candidate}: {_clause(release.reason)}.")
        case ReleasePhase.RUNNING:
            return _judged(release, candidate, share)
        case ReleasePhase.COMPLETING:
            waits = release.reason or "waits for the last nodes"
            return Judgement(Level.BUSY, "Completing", f"{candidate} has all traffic; {_clause(waits)}.")
        case _:
            return Judgement(Level.BUSY, "Draft", f"{candidate} has not started.")


def _judged(release: Release, candidate: str, share: str) -> Judgement:
    verdict = release.verdict
    at = f"{candidate} at {share}"
    if verdict is None:
        return Judgement(Level.BUSY, "On trial", f"{at}; no evidence yet.")
    told = _clause(verdict.sentence)
    sentence = f"{at}. {told[:1].upper()}{told[1:]}."
    match verdict.kind:
        case VerdictKind.ADVANCE:
            return Judgement(Level.GOOD, "Going well", sentence)
        case VerdictKind.HOLD:
            return Judgement(Level.BUSY, "On trial", sentence)
        case VerdictKind.INCONCLUSIVE:
            return Judgement(Level.WARN, "Inconclusive", sentence, "Give it more traffic, or decide by hand.")
        case VerdictKind.FREEZE:
            return Judgement(Level.BAD, "Freeze", sentence)
        case VerdictKind.ROLL_BACK:
            return Judgement(Level.BAD, "Roll back", sentence)
        case _:
            assert_never(verdict.kind)


def _settled(facts: Facts) -> Judgement:
    """Nothing is under way."""
    deployment, stable = facts.deployment, facts.deployment.stable
    if stable is None:
        return Judgement(
            Level.NONE,
            "Nothing released",
            "Requests are answered 503 until a first version is released.",
            "Release one:",
            f"slipway promote {deployment.model}@VERSION --to {deployment.ref}",
        )
    name = facts.names(stable)
    if facts.status is None:
        return Judgement(Level.UNKNOWN, "Unknown", f"{name} was requested; what nodes do is not known.")
    total, ready = len(facts.nodes), len(facts.ready)
    if total == 0:
        return Judgement(
            Level.WARN,
            "No node",
            f"{name} is requested, and no node serves it.",
            "Invite one:",
            f"slipway node invite {deployment.environment}",
        )
    serves = f"{name} serves all traffic on {ready} of {nodes(total)}."
    if ready < total - len(facts.silent):
        failed = _failed(facts)
        why = f" {failed} can't load it." if failed else ""
        return Judgement(Level.WARN, "Not everywhere", f"{serves}{why}")
    if len(facts.silent) == total:
        return Judgement(Level.UNKNOWN, "Unknown", f"{name} was requested;")
    if deployment.pinned:
        word = "Rolled back" if facts.in_force else "Pinned"
        return Judgement(Level.WARN, word, f"{serves} Automation is off.")
    if facts.release is not None and facts.release.phase is ReleasePhase.FAILED:
        reason = _clause(facts.release.reason)
        return Judgement(Level.WARN, "Release failed", f"{serves} The last release failed: {reason}.")
    if facts.status.converged or facts.silent:
        return Judgement(Level.GOOD, "Healthy", serves)
    return Judgement(Level.BUSY, "Settling", f"{serves} Nodes still take the newest route.")


def _failed(facts: Facts) -> str:
    """`n2 (out of memory)`, of every fresh node that can't load an arm."""
    return listed(
        [
            f"{node.name} ({arm.reason or 'no reason given'})"
            for node in facts.nodes
            for arm in node.arms
            if node.fresh and arm.phase == SlotPhase.FAILED
        ]
    )


def _clause(sentence: str) -> str:
    """To be followed by our own full stop."""
    return sentence.strip().rstrip(".")
