"""What a starting engine process tells its parent: one JSON object a line on an inherited socket.

{"part": …} as each part of the load begins, then {"ready": EngineInfo} or {"failed": {kind, message}}.
The parent writes nothing; its closing the socket ends the process.
"""

import os
import socket

import orjson

from serving.engine.facts import EngineInfo
from serving.runtimes.errors import RuntimeFault


class Control:
    """`fd` None: nobody listens, e.g. a process started by hand."""

    def __init__(self, fd: int | None) -> None:
        self._sock = None if fd is None else socket.socket(fileno=fd)
        if self._sock is not None:
            os.set_inheritable(self._sock.fileno(), False)

    @property
    def fileno(self) -> int | None:
        return None if self._sock is None else self._sock.fileno()

    def part(self, name: str) -> None:
        self._tell({"part": name})

    def ready(self, info: EngineInfo) -> None:
        self._tell({"ready": info.model_dump(mode="json")})

    def failed(self, error: Exception) -> None:
        kind = error.kind if isinstance(error, RuntimeFault) else type(error).__name__
        self._tell({"failed": {"kind": kind, "message": str(error)}})

    def _tell(self, message: dict[str, object]) -> None:
        if self._sock is not None:
            self._sock.sendall(orjson.dumps(message) + b"\n")
