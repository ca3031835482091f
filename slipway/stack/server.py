"""What the stack asks of each embedded server."""

from pathlib import Path
from typing import Protocol

from slipway.stack.process import Command


class Server(Protocol):
    """One server of the stack. `command` may take time (copying, initialising); `probe` must be quick."""

    @property
    def name(self) -> str:
        """`postgres`, `valkey` or `seaweed`."""

    @property
    def port_names(self) -> tuple[str, ...]:
        """The ports it needs, by purpose."""

    def command(self, log: Path) -> Command:
        """Prepares its part of the data directory and says how to start it."""

    def probe(self) -> None:
        """Returns when the server does its work; raises NotReady, with the reason, while it doesn't."""

    def clean_up(self) -> None:
        """Removes what the server leaves outside its data directory, after it has stopped."""


class NotReady(Exception):
    """The server doesn't work yet; the message is what it answered."""
