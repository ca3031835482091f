"""What `slipway up` asks for before it starts a service."""

import http.server
import socket
import threading

import pytest

from slipway.service import require_free
from slipway.stack import StackError


class _Slipway(http.server.BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        self.send_response(503)
        self.send_header("x-slipway-registry", "reg_other")
        self.end_headers()

    def log_message(self, *_: object) -> None:
        """Nothing to stderr."""


def test_a_port_of_another_slipway_is_refused_with_its_registry() -> None:
    with http.server.HTTPServer(("127.0.0.1", 0), _Slipway) as other:
        threading.Thread(target=other.serve_forever, daemon=True).start()
        port = other.server_address[1]
        with pytest.raises(
            StackError, match=rf"port {port} is taken by another Slipway \(registry id reg_other\)"
        ):
            require_free(port)
        other.shutdown()
    require_free(port)


def test_a_port_of_another_program_is_refused_too() -> None:
    with socket.create_server(("127.0.0.1", 0)) as other, pytest.raises(StackError, match="another program"):
        require_free(other.getsockname()[1])
