"""A table of moves: (phase, event) → phase. Everything that has a phase has one, and no other moves."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Generic, TypeVar

P = TypeVar("P", bound=StrEnum)
E = TypeVar("E", bound=StrEnum)


@dataclass(frozen=True)
class MoveTable(Generic[P, E]):
    """`moves[phase][event]` is where the event leads to from that phase.

    `inner`: what happens by itself or by a worker; nobody can ask for it. `words`: what people call an event
    that has another name here.
    """

    phases: type[P]
    events: type[E]
    moves: Mapping[P, Mapping[E, P]]
    inner: frozenset[E] = frozenset()
    words: Mapping[E, str] = field(default_factory=dict)

    def target(self, phase: str, event: E) -> P | None:
        """None: there is no such move."""
        return self.moves.get(self.phases(phase), {}).get(event)

    def refusal(self, phase: str, event: E) -> str:
        """Says, of what has this phase, why `event` is impossible now, and what people can ask for."""
        moves = self.moves.get(self.phases(phase), {})
        possible = sorted({self.word(other) for other in moves if other not in self.inner})
        if possible:
            then = f"possible now: {', '.join(possible)}"
        else:
            then = "it goes on by itself" if moves else "nothing moves it any more"
        return f"it is {phase.replace('_', ' ')}: {self.word(event)} is not possible; {then}"

    def word(self, event: E) -> str:
        """What people call it."""
        return self.words.get(event, str(event).replace("_", " "))

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
