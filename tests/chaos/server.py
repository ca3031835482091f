"""A registry process as it runs in production: `python -m slipway.server`, to be killed and started again."""

import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Mapping
from pathlib import Path

import httpx

START_S = 90
ADMIN = "test-admin-token"


class Server:
    """`log`: what it wrote to stderr, of all its lives."""

    def __init__(self, environment: Mapping[str, str], log: Path, port: int | None = None) -> None:
        self.port = port or free_port()
        self.url = f"http://127.0.0.1:{self.port}"
        self.log = log
        self._environment = dict(environment)
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> "Server":
        """Returns when it answers; raises AssertionError with its log otherwise."""
        with self.log.open("ab") as log:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "slipway.server", "--port", str(self.port)],
                env={**_clean(), **self._environment},
                stdout=log,
                stderr=log,
            )
        deadline = time.monotonic() + START_S
        while not self._answers():
            alive = self._process.poll() is None and time.monotonic() < deadline
            assert alive, f"the server did not start: {self.log.read_text()[-3000:]}"
            time.sleep(0.1)
        return self

    def _answers(self) -> bool:
        try:
            return httpx.get(f"{self.url}/healthz", timeout=2, trust_env=False).status_code == 200
        except httpx.HTTPError:
            return False

    def kill(self) -> None:
        """kill -9."""
        assert self._process is not None
        self._process.kill()
        self._process.wait()

    def stop(self) -> None:
        if self._process is not None and self._process.poll() is None:
            self._process.send_signal(signal.SIGTERM)
            try:
                self._process.wait(20)
            except subprocess.TimeoutExpired:
                self.kill()


def environment(addresses: Mapping[str, str], **more: str) -> dict[str, str]:
    """What a server is started with; quick loops, so that tests need not wait."""
    return {
        **addresses,
        "SLIPWAY_ADMIN_TOKEN": ADMIN,
        "SLIPWAY_LOOK_EVERY_S": "0.3",
        "SLIPWAY_SWEEP_EVERY_S": "0.5",
        "SLIPWAY_REPUBLISH_AFTER_S": "2",
        # The tests play the workers.
        "SLIPWAY_VERIFY_AT_ONCE_BYTES": "0",
        **more,
    }


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


def _clean() -> dict[str, str]:
    hidden = ("SLIPWAY_", "DATABASE_", "REDIS_URL", "S3_ENDPOINT_URL", "AWS_")
    return {name: value for name, value in os.environ.items() if not name.startswith(hidden)}
