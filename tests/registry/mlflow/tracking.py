"""A real MLflow tracking server on loopback, of an environment of its own."""

import os
import signal
import socket
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import httpx

START_S = 180


@contextmanager
def tracking_server(python: Path, folder: Path) -> Iterator[str]:
    """Its URL. Database and artifacts lie in `folder`; the server ends with the block."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    command = [
        *(str(python), "-m", "mlflow", "server", "--host", "127.0.0.1", "--port", str(port)),
        *("--workers", "1", "--backend-store-uri", f"sqlite:///{folder}/tracking.db"),
        *("--artifacts-destination", str(folder / "artifacts")),
    ]
    with (folder / "server.log").open("wb") as log:
        # Experiments whose files go to the registry: newer servers want to be told that they may.
        allowed = {"MLFLOW_ALLOWED_HOST_ADDRESSED_ARTIFACT_SCHEMES": "http"}
        server = subprocess.Popen(
            command, env=client_environment() | allowed, stdout=log, stderr=log, start_new_session=True
        )
    url = f"http://127.0.0.1:{port}"
    try:
        _await_health(url, server, folder / "server.log")
        yield url
    finally:
        os.killpg(server.pid, signal.SIGTERM)
        try:
            server.wait(20)
        except subprocess.TimeoutExpired:
            os.killpg(server.pid, signal.SIGKILL)
            server.wait()


def client_environment(token: str = "") -> dict[str, str]:
    """Of a program that has mlflow: nothing leaves this machine."""
    environ = {
        **{name: os.environ[name] for name in ("PATH", "HOME") if name in os.environ},
        "MLFLOW_DISABLE_TELEMETRY": "true",
        "MLFLOW_SERVER_ENABLE_JOB_EXECUTION": "false",
        "MLFLOW_ENABLE_ARTIFACTS_PROGRESS_BAR": "false",
        "PYTHONWARNINGS": "ignore",
        "NO_PROXY": "127.0.0.1",
        "GIT_PYTHON_REFRESH": "quiet",
    }
    return environ | ({"MLFLOW_TRACKING_TOKEN": token} if token else {})


def _await_health(url: str, server: "subprocess.Popen[bytes]", log: Path) -> None:
    end = time.monotonic() + START_S
    while True:
        try:
            if httpx.get(f"{url}/health", trust_env=False, timeout=5).is_success:
                return
        except httpx.HTTPError:
            pass
        if server.poll() is not None or time.monotonic() > end:
            raise RuntimeError(f"the tracking server did not start: {log.read_text()[-3000:]}")
        time.sleep(0.1)
