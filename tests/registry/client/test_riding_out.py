"""Long work waits for a registry that is started again; a single question does not."""

import http.server
import threading
import time

import pytest

from registry.client import Client, Unreachable
from registry.client.call import Call
from slipway.stack.ports import choose


class _Answers(http.server.BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        self.send_response(200)
        self.end_headers()
        self.wfile.write(b'"back"')

    def log_message(self, *_: object) -> None:
        """Nothing to stderr."""


CALL: Call[str] = Call("GET", "/v1/anything", str)


def test_in_a_transfer_a_registry_that_comes_back_is_waited_for() -> None:
    port = choose(["web"], {}, [])["web"]
    told: list[str] = []
    back: list[http.server.HTTPServer] = []

    def come_back() -> None:
        # Longer than all attempts of a single question take.
        time.sleep(4)
        back.append(http.server.HTTPServer(("127.0.0.1", port), _Answers))
        back[0].serve_forever()

    with Client(f"http://127.0.0.1:{port}", tell=told.append) as client:
        with pytest.raises(Unreachable):
            client(CALL)
        assert told == []
        thread = threading.Thread(target=come_back)
        thread.start()
        try:
            with client.riding_out():
                assert client(CALL) == "back"
        finally:
            thread.join(5) if not back else back[0].shutdown()
            thread.join()
            back[0].server_close()
    assert told == ["no answer from the registry; waiting up to 30 s for it to come back"]
