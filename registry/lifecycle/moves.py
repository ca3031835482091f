"""A table of moves: (phase, event) → phase. Everything that has a phase has one, and no other moves."""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Generic, TypeVar

P = TypeVar("P", bound=StrEnum)
E = TypeVar("E", bound=StrEnum)


@dataclass(frozen=True)
class MoveTable(Generic[P, E]):
    """`moves[phase][event]` is where the event leads to from that phase."""

    phases: type[P]
    events: type[E]
    moves: Mapping[P, Mapping[E, P]]

    def target(self, phase: str, event: E) -> P | None:
        """None: there is no such move."""
        return self.moves.get(self.phases(phase), {}).get(event)

    def refusal(self, subject: str, phase: str, event: E) -> str:
        """Says why `event` is impossible now, and what is possible."""
        possible = sorted(str(other) for other in self.moves.get(self.phases(phase), {}))
        then = f"possible now: {', '.join(possible)}" if possible else "nothing moves it any more"
        return f"{subject} is {phase}: {event} is not possible; {then}"

    @property
    def first(self) -> P:
        """Where everything begins."""
        return next(iter(self.phases))

    @property
    def terminal(self) -> frozenset[P]:
        """Phases that nothing leaves."""
        return frozenset(phase for phase in self.phases if not self.moves.get(phase))

    def edges(self) -> list[tuple[P, E, P]]:
        """All moves, in order of the phases: what documentation is generated from."""
        return [
            (phase, event, target)
            for phase in self.phases
            for event, target in self.moves.get(phase, {}).items()
        ]
