"""The load client of the demo against a real server that answers badly."""

import asyncio
import json
import signal
import socket
import sys
from pathlib import Path
from typing import Any

import uvicorn


class Node:
    """A registry's node list and a node in one: every third request is shed, every fifth gets nonsense."""

    def __init__(self, port: int) -> None:
        self._port = port
        self.seen = 0

    async def __call__(self, scope: dict[str, Any], receive: Any, send: Any) -> None:
        if scope["type"] != "http":
            return
        status, body = 200, json.dumps([{"targets": [f"127.0.0.1:{self._port}"]}]).encode()
        if scope["path"].endswith("/predict"):
            self.seen += 1
            status = 503 if self.seen % 3 == 0 else 200
            body = b"[" if self.seen % 5 == 0 else b'{"answer": {"label": "a"}}'
        await send({"type": "http.response.start", "status": status, "headers": []})
        await send({"type": "http.response.body", "body": body})


async def test_every_attempt_is_sent_once_and_kept_whatever_came_back(tmp_path: Path) -> None:
    (tmp_path / "inputs").mkdir()
    (tmp_path / "inputs" / "one").write_bytes(b"1")
    (tmp_path / "token").write_text("secret")
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        port = listener.getsockname()[1]
        node = Node(port)
        server = uvicorn.Server(uvicorn.Config(node, log_config=None, lifespan="off"))
        serving = asyncio.create_task(server.serve(sockets=[listener]))
        options = {
            "inputs": tmp_path / "inputs",
            "nodes-url": f"http://127.0.0.1:{port}/v1/deployments/prod/x/nodes",
            "token-file": tmp_path / "token",
            "model": "x",
            "rate": 200,
            "journal": tmp_path / "journal.jsonl",
        }
        arguments = [word for name, value in options.items() for word in (f"--{name}", str(value))]
        client = await asyncio.create_subprocess_exec(sys.executable, "-m", "slipway.demo.load", *arguments)
        async with asyncio.timeout(60):
            while node.seen < 60:
                await asyncio.sleep(0.05)
        client.send_signal(signal.SIGTERM)
        assert await client.wait() == 0
        server.should_exit = True
        await serving
    attempts = [json.loads(line) for line in (tmp_path / "journal.jsonl").read_text().splitlines()]
    assert len(attempts) == node.seen
    assert sum(one["status"] == 503 for one in attempts) == node.seen // 3
    assert sorted(one["n"] for one in attempts) == list(range(node.seen))
    answered_badly = sum(one["status"] == 200 and bool(one["error"]) for one in attempts)
    assert answered_badly == node.seen // 5 - node.seen // 15
