"""The blocking client of an engine process, for benches and builders."""

import socket
from pathlib import Path

from serving.engine.answers import EngineAnswer, result_of
from serving.engine.errors import EngineLost, EngineTimeout, FrameError
from serving.engine.facts import EngineInfo, WarmReport
from serving.engine.frames import Frame, FrameKind, new_scratch, plain_frame, receive, tensor_frame
from serving.runtimes.protocol import Tensors


class SyncEngineClient:
    """One connection, one request at a time, for programs without an event loop."""

    def __init__(self, path: str | Path, timeout_s: float = 60.0) -> None:
        """`timeout_s` holds for every call. Raises EngineLost when nobody listens at `path`."""
        self._sock = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET | socket.SOCK_CLOEXEC)
        self._sock.settimeout(timeout_s)
        self._scratch = new_scratch()
        self._next = 1
        try:
            self._sock.connect(str(path))
        except OSError as error:
            self._sock.close()
            raise EngineLost(f"no engine process answers at {path}: {error}") from error

    def infer(self, inputs: Tensors) -> EngineAnswer:
        """As EngineClient.infer. After EngineTimeout the connection is closed."""
        answer = self._ask(tensor_frame(FrameKind.INFER, self._request(), 0, inputs))
        assert isinstance(answer, EngineAnswer)
        return answer

    def info(self) -> EngineInfo:
        return EngineInfo.model_validate(self._ask(plain_frame(FrameKind.INFO, self._request())))

    def ping(self) -> None:
        self._ask(plain_frame(FrameKind.PING, self._request()))

    def warm(self, max_rows: int, example: Tensors | None = None) -> WarmReport:
        frame = tensor_frame(FrameKind.WARM, self._request(), max_rows, example or {})
        return WarmReport.model_validate(self._ask(frame))

    def close(self) -> None:
        self._sock.close()

    def __enter__(self) -> "SyncEngineClient":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _request(self) -> int:
        self._next += 1
        return self._next

    def _ask(self, frame: Frame) -> object:
        try:
            frame.send(self._sock)
            received = receive(self._sock, self._scratch)
        except TimeoutError as error:
            self.close()
            raise EngineTimeout(f"no answer within {self._sock.gettimeout()} s") from error
        except (OSError, FrameError) as error:
            self.close()
            raise EngineLost(f"the connection to the engine process broke: {error}") from error
        finally:
            frame.drop()
        if received is None:
            self.close()
            raise EngineLost("the engine process closed the connection")
        return result_of(received)
