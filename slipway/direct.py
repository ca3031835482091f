"""A rollback past the registry: straight to the nodes' admin sockets on this machine."""

import getpass
import socket
from datetime import UTC, datetime
from pathlib import Path
from uuid import uuid4

from pydantic import BaseModel

from registry.contract.admin import AdminAnswer, RollBackAsk

TIMEOUT_S = 10.0
LOCAL_NODES = ".slipway/**/nodes/*/run/admin.sock"


class DirectAnswer(BaseModel):
    """`error` empty: the node recorded the override and follows it."""

    node: str
    error: str


def local_sockets(folder: Path) -> list[Path]:
    """Of the nodes that `slipway up` runs from this directory."""
    return sorted(folder.glob(LOCAL_NODES))


def roll_back(deployment: str, sockets: list[Path], to: str | None = None) -> list[DirectAnswer]:
    """Every node records one and the same override, fsynced, before it moves; the registry settles it later.

    A node that does not answer is named and does not stop the others.
    """
    ask = RollBackAsk(
        deployment=deployment,
        by=f"{getpass.getuser()} (direct)",
        to=to,
        id=f"ovr_{uuid4().hex}",
        at=datetime.now(UTC),
    )
    return [_press(path, ask) for path in sockets]


def _press(path: Path, ask: RollBackAsk) -> DirectAnswer:
    name = path.parent.parent.name
    try:
        # A socket's path is short by law, so a node with a long one keeps it behind a link.
        with socket.socket(socket.AF_UNIX) as peer:
            peer.settimeout(TIMEOUT_S)
            peer.connect(str(path.resolve()))
            peer.sendall(ask.model_dump_json().encode() + b"\n")
            with peer.makefile("rb") as answers:
                answer = AdminAnswer.model_validate_json(answers.readline())
    except (OSError, ValueError) as error:
        return DirectAnswer(node=name, error=f"it does not answer: {error}")
    return DirectAnswer(node=name, error=answer.error)
