"""The move tables as Markdown, the source of docs/lifecycle.md: `python -m registry.lifecycle.diagrams`."""

from collections.abc import Iterator
from typing import Any

from registry.contract.releases import ReleasePhase
from registry.contract.verdicts import VerdictKind
from registry.lifecycle.builds import BUILD_MOVES
from registry.lifecycle.moves import MoveTable
from registry.lifecycle.releases import ACTIVE_PHASES, RELEASE_MOVES
from registry.lifecycle.tasks import TASK_MOVES
from registry.lifecycle.uploads import UPLOAD_MOVES
from registry.lifecycle.verdicts import effect
from registry.lifecycle.versions import VERSION_MOVES

TABLES: dict[str, MoveTable[Any, Any]] = {
    "Version (stages)": VERSION_MOVES,
    "Upload": UPLOAD_MOVES,
    "Task": TASK_MOVES,
    "Build": BUILD_MOVES,
    "Release": RELEASE_MOVES,
}

HEAD = """# Life cycles

Generated from the move tables in `registry/lifecycle` (`python -m registry.lifecycle.diagrams`); a test
compares this page with them. Phases move only through `registry.tables.journal.advance`.
"""


def diagram(table: MoveTable[Any, Any]) -> Iterator[str]:
    """A Mermaid state diagram."""
    yield "```mermaid"
    yield "stateDiagram-v2"
    yield f"    [*] --> {table.first}"
    for phase, event, target in table.edges():
        yield f"    {phase} --> {target}: {event}"
    for phase in sorted(table.terminal):
        yield f"    {phase} --> [*]"
    yield "```"


def verdict_table() -> Iterator[str]:
    """Phase × verdict → what the controller does."""
    kinds = list(VerdictKind)
    yield "| phase | " + " | ".join(kinds) + " |"
    yield "|---" * (len(kinds) + 1) + "|"
    for phase in ReleasePhase:
        if phase in ACTIVE_PHASES or phase is ReleasePhase.COMPLETED:
            cells = [effect(phase, kind) for kind in kinds]
            yield f"| {phase} | " + " | ".join(cells) + " |"


def page() -> str:
    """The whole page."""
    lines = [HEAD]
    for title, table in TABLES.items():
        lines += [f"## {title}", "", *diagram(table), ""]
    lines += [
        "## What a verdict does",
        "",
        "Evidence is judged while a release is running. A rollback by hand works in every phase below.",
        "",
        *verdict_table(),
        "",
    ]
    return "\n".join(lines)


if __name__ == "__main__":
    print(page(), end="")
