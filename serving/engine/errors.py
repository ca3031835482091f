"""What a client of an engine process may meet. An InputError of the caller arrives as itself."""


class EngineError(Exception):
    """Base of the errors below."""


class EngineLost(EngineError):
    """The connection broke: the process died, was replaced, or closed this client for a malformed frame."""


class EngineTimeout(EngineError):
    """No answer within the time given. The run may still be going on in the engine process."""


class EngineFailed(EngineError):
    """The engine process is well, and this request failed in it. `kind` is that of the error there:
    `run_failed`, `expired` (its deadline passed before it could run), `internal` …"""

    def __init__(self, kind: str, message: str) -> None:
        self.kind = kind
        super().__init__(message)


class EngineStartFailed(EngineError):
    """The process could not be started, or could not load its engine. `kind` as above, or `died`."""

    def __init__(self, kind: str, message: str) -> None:
        self.kind = kind
        super().__init__(message)


class FrameError(EngineError):
    """Bytes that are no frame of this protocol."""
