"""A receiver of webhooks: a real HTTP server that can be down, slow, or of another opinion."""

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import orjson

from registry.contract.events import EVENT, Event


@dataclass(frozen=True)
class Got:
    """One request, whatever was answered. `began` and `ended` by the monotonic clock."""

    path: str
    headers: dict[str, str]
    body: bytes
    status: int
    began: float
    ended: float

    @property
    def message(self) -> str:
        return self.headers["webhook-id"]

    @property
    def event(self) -> Event:
        return EVENT.validate_json(self.body)


@dataclass
class Receiver:
    """`answer` gives the status for an event's JSON; `got` holds all requests in the order of their ends."""

    port: int = 0
    answer: Callable[[dict[str, object]], int] = lambda _: 204
    delay_s: float = 0.0
    endless: bool = False
    got: list[Got] = field(default_factory=list)
    _server: ThreadingHTTPServer | None = None

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}/hook"

    def taken(self) -> list[Got]:
        """What was answered with success, in order."""
        return [each for each in self.got if 200 <= each.status < 300]

    def start(self) -> None:
        receiver = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                began = time.monotonic()
                body = self.rfile.read(int(self.headers["content-length"]))
                status = receiver.answer(orjson.loads(body))
                time.sleep(receiver.delay_s)
                headers = {name.lower(): value for name, value in self.headers.items()}
                receiver.got.append(Got(self.path, headers, body, status, began, time.monotonic()))
                self.send_response(status)
                if 300 <= status < 400:
                    self.send_header("location", f"{receiver.url}/elsewhere")
                self.end_headers()
                try:
                    while receiver.endless:
                        self.wfile.write(b"x" * 65536)
                except OSError:
                    self.close_connection = True

            def log_message(self, format: str, *args: object) -> None:
                """Silent."""

        self._server = ThreadingHTTPServer(("127.0.0.1", self.port), Handler)
        self._server.daemon_threads = True
        self.port = self._server.server_port
        threading.Thread(target=self._server.serve_forever, args=(0.02,), daemon=True).start()

    def stop(self) -> None:
        if self._server is not None:
            self._server.shutdown()
            self._server.server_close()
            self._server = None

    @contextmanager
    def running(self) -> Iterator["Receiver"]:
        self.start()
        try:
            yield self
        finally:
            self.endless = False
            self.stop()


def down() -> Receiver:
    """Its port is known, and nobody listens there."""
    receiver = Receiver()
    receiver.start()
    receiver.stop()
    return receiver
