"""A rollback's receipt as people read it: a headline, a row per node, and a summary to paste."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import assert_never

from registry.contract.releases import Receipt, ReceiptNode
from web.views.naming import Names, full
from web.views.verdict import GLYPHS, Level
from web.views.words import listed, milliseconds

LEAST_SCALE_MS = 100.0


@dataclass(frozen=True, slots=True)
class Row:
    """Times in ms after the request. `note` says what is peculiar about this node."""

    node: str
    name: str
    state: str
    glyph: str
    word: str
    level: str
    switched: float | None
    drained: float | None
    note: str
    silent_since: datetime | None

    @property
    def switched_text(self) -> str:
        return "–" if self.switched is None else f"+{milliseconds(self.switched)}"

    @property
    def drained_text(self) -> str:
        return "–" if self.drained is None else f"+{milliseconds(self.drained)}"


@dataclass(frozen=True, slots=True)
class ReceiptView:
    """`scale_ms`: the right end of every node's lane."""

    short: str
    level: str
    glyph: str
    word: str
    title: str
    sentence: str
    leaving: str
    target: str
    rows: tuple[Row, ...]
    silent: tuple[Row, ...]
    scale_ms: float
    over: bool


def short_id(receipt: str) -> str:
    """`R-1A2B3C`: enough to tell two receipts apart when spoken."""
    return f"R-{receipt[-6:].upper()}"


def view(receipt: Receipt) -> ReceiptView:
    names = Names(full(arm) for arm in (*receipt.from_arms, receipt.to_arm))
    target = names(receipt.to_arm)
    rows = tuple(_row(node, names) for node in receipt.nodes)
    back = sum(row.state in ("switched", "drained") for row in rows)
    silent = tuple(row for row in rows if row.state == "unreachable")
    level, word = _state(receipt, silent)
    verb = "rolling back" if not receipt.final else f"back on {target}"
    times = [time for row in rows for time in (row.switched, row.drained) if time is not None]
    return ReceiptView(
        short=short_id(receipt.id),
        level=level,
        glyph=GLYPHS[level],
        word=word,
        title=f"{back}/{len(rows)} {verb} · {short_id(receipt.id)}",
        sentence=receipt.final or f"{back} of {len(rows)} nodes are back on {target}.",
        leaving=listed([names(arm) for arm in receipt.from_arms]) or "nothing",
        target=target,
        rows=rows,
        silent=silent,
        scale_ms=max([LEAST_SCALE_MS, *times]),
        over=bool(receipt.final),
    )


def reason(receipt: Receipt) -> str:
    """As given; the registry's own filler says nothing that "by" does not."""
    given = receipt.reason.strip()
    return "none given" if given in ("", f"rolled back by {receipt.asked_by}") else given


def _state(receipt: Receipt, silent: Sequence[Row]) -> tuple[Level, str]:
    if not receipt.final:
        return Level.BAD, "Rolling back"
    if silent:
        return Level.WARN, "Not confirmed everywhere"
    return (Level.GOOD, "Rolled back") if receipt.nodes else (Level.UNKNOWN, "No node")


def _row(node: ReceiptNode, names: Names) -> Row:
    glyph, word, level = _node_state(node)
    notes = []
    if node.cold:
        notes.append("had to load it first")
    if node.state == "unreachable":
        notes.append(f"its last known version is {_short(node.last_known_version, names)}")
    return Row(
        node.node,
        node.name,
        node.state,
        glyph,
        word,
        level,
        node.switched_ms,
        node.drained_ms,
        "; ".join(notes),
        node.unreachable_since,
    )


def _short(version: str | None, names: Names) -> str:
    return "not known" if version is None else names(version)


def _node_state(node: ReceiptNode) -> tuple[str, str, str]:
    match node.state:
        case "waiting":
            return "◐", "waiting", "busy"
        case "switched":
            return "◑", "switched", "busy"
        case "drained":
            return "✔", "drained", "good"
        case "unreachable":
            return "?", "silent", "unknown"
        case _:
            assert_never(node.state)


def summary(receipt: Receipt, url: str) -> str:
    """Plain text for a chat or a ticket."""
    made = view(receipt)
    by = f"{receipt.asked_by}, automatically" if receipt.automatic else receipt.asked_by
    lines = [
        f"Rollback {made.short} of {receipt.deployment}: {made.leaving} → {made.target}",
        f"asked {receipt.asked_at:%Y-%m-%d %H:%M:%S}.{receipt.asked_at.microsecond // 1000:03d}Z by {by}",
        f"reason: {reason(receipt)}",
        *(
            f"{row.name}: {row.word}, {_times(row)}{f' ({row.note})' if row.note else ''}"
            for row in made.rows
        ),
        made.sentence,
        *(f"note: {note}" for note in receipt.notes),
        url,
    ]
    return "\n".join(lines)


def _times(row: Row) -> str:
    return f"switched {row.switched_text}, drained {row.drained_text}"
