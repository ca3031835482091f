"""A registry's side of the node protocol on loopback, as small as it can be: what a test says, it says."""

import re
import threading
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs, urlsplit

from registry.contract.nodes import Applied, Assignment, Enrolled, Report
from registry.contract.problems import Problem
from tests.serving.agent.making import REGISTRY

NODE = "nod_1"
TOKEN = "node-token"


@dataclass(frozen=True)
class Seen:
    """One request to the blobs or the store behind them."""

    path: str
    authorization: str | None
    range: str | None


@dataclass
class Peer:
    """`blobs`: what the store gives under a digest. `cut_after`: the next download breaks after so many
    bytes. `refuse`: answer every call with this status."""

    port: int = 0
    blobs: dict[str, bytes] = field(default_factory=dict)
    cut_after: int | None = None
    refuse: int | None = None
    downloads: list[Seen] = field(default_factory=list)
    reports: list[Report] = field(default_factory=list)
    applied: list[Applied] = field(default_factory=list)
    enrolments: list[dict[str, Any]] = field(default_factory=list)
    polls: list[tuple[str | None, str]] = field(default_factory=list)

    def __post_init__(self) -> None:
        self._assignment: Assignment | None = None
        self._etag = 0
        self._news = threading.Condition()
        self._server: ThreadingHTTPServer | None = None
        self._thread: threading.Thread | None = None
        self._closing = False

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def start(self) -> "Peer":
        """Begin to answer; again on the same port after a stop."""
        self._closing = False
        self._server = _Server(("127.0.0.1", self.port), _handler(self))
        self.port = self._server.server_address[1]
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.05,))
        self._thread.start()
        return self

    def stop(self) -> None:
        """Nobody answers any more."""
        if self._server is None or self._thread is None:
            return
        with self._news:
            self._closing = True
            self._news.notify_all()
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()
        self._server = None

    def assign(self, assignment: Assignment) -> None:
        with self._news:
            self._assignment = assignment
            self._etag += 1
            self._news.notify_all()

    def poll(self, etag: str | None, wait: str) -> tuple[str, Assignment] | None:
        """As the long poll answers; None: 304."""
        self.polls.append((etag, wait))
        with self._news:
            self._news.wait_for(
                lambda: self._closing or (self._assignment is not None and etag != f'"{self._etag}"'),
                timeout=float(wait),
            )
            if self._closing or self._assignment is None or etag == f'"{self._etag}"':
                return None
            return f'"{self._etag}"', self._assignment


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    block_on_close = False

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A node that was killed in the middle of a request is no news."""


def _handler(peer: Peer) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def log_message(self, format: str, *args: Any) -> None:
            """Quiet."""

        def do_GET(self) -> None:
            if self._refused():
                return
            url = urlsplit(self.path)
            if url.path == f"/v1/nodes/{NODE}/assignment":
                answer = peer.poll(self.headers.get("if-none-match"), parse_qs(url.query)["wait"][0])
                if answer is None:
                    self._send(304, b"")
                else:
                    self._send(200, answer[1].model_dump_json().encode(), {"etag": answer[0]})
            elif url.path.startswith("/v1/blobs/"):
                self._note()
                digest = url.path.rpartition("/")[2]
                self._send(307, b"", {"location": f"/store/{digest}?signature=abc"})
            elif url.path.startswith("/store/"):
                self._note()
                self._store(url.path.rpartition("/")[2])
            else:
                self._send(404, b"")

        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers.get("content-length", "0")))
            if self._refused():
                return
            if self.path == "/v1/nodes":
                peer.enrolments.append({"token": self.headers["authorization"], "body": body})
                enrolled = Enrolled(node=NODE, environment="prod", registry_id=REGISTRY, token=TOKEN)
                self._send(201, enrolled.model_dump_json().encode())
            elif self.path.endswith("/reports"):
                peer.reports.append(Report.model_validate_json(body))
                self._send(204, b"")
            else:
                peer.applied.append(Applied.model_validate_json(body))
                self._send(204, b"")

        def _refused(self) -> bool:
            if peer.refuse is None:
                return False
            problem = Problem(type="/problems/forbidden", title="No", status=peer.refuse, detail="", hint="")
            self._send(peer.refuse, problem.model_dump_json().encode())
            return True

        def _note(self) -> None:
            self_range = self.headers.get("range")
            peer.downloads.append(
                Seen(urlsplit(self.path).path, self.headers.get("authorization"), self_range)
            )

        def _store(self, digest: str) -> None:
            content = peer.blobs.get(digest)
            if content is None:
                self._send(404, b"no such object")
                return
            wanted = re.fullmatch(r"bytes=(\d+)-", self.headers.get("range") or "")
            start = int(wanted[1]) if wanted else 0
            headers = {"content-range": f"bytes {start}-{len(content) - 1}/{len(content)}"} if wanted else {}
            cut, peer.cut_after = peer.cut_after, None
            part = content[start:]
            self._send(206 if wanted else 200, part if cut is None else part[:cut], headers, len(part))
            if cut is not None:
                self.close_connection = True

        def _send(
            self, status: int, body: bytes, headers: dict[str, str] | None = None, length: int | None = None
        ) -> None:
            self.send_response(status)
            for name, value in (headers or {}).items():
                self.send_header(name, value)
            if status not in (204, 304):
                self.send_header("content-length", str(len(body) if length is None else length))
            self.end_headers()
            self.wfile.write(body)

    return Handler
