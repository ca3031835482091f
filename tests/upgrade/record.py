"""Records a state of the registry, for the states to come: `python -m tests.upgrade.record DIRECTORY`.

Run it in a checkout of that state (this folder copied into it), once, when its version is released:
requests and answers of `tour.py`, the schema, and the published description. Statements come from the
registry's own tests: see `statements.py`.
"""

import asyncio
import json
import re
import socket
import sys
import tempfile
from dataclasses import replace
from pathlib import Path
from typing import Any, TypeVar

import httpx
import psycopg
import uvicorn

from registry import migrate
from registry.app import build
from registry.client import AsyncClient
from registry.client.call import Call
from registry.contract.nodes import Assignment
from registry.settings import Settings
from slipway.stack import Stack
from tests import patience
from tests.upgrade import schema, tour, wire

T = TypeVar("T")
ADMIN = "test-admin-token"
KEPT = ("content-type", "if-match", "if-none-match")
_SECRET = re.compile(r"slp_[A-Za-z0-9_-]{20,}")
KEPT_OF_ANSWERS = ("etag", "location", "retry-after", "www-authenticate")


class Recorder(httpx.AsyncBaseTransport):
    """Sends, and remembers what was said both ways."""

    def __init__(self, url: str) -> None:
        self._url = url
        self._inner = httpx.AsyncHTTPTransport()
        self.exchanges: list[wire.Exchange] = []

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        response = await self._inner.handle_async_request(request)
        await response.aread()
        body = request.content
        headers = {name: request.headers[name] for name in KEPT if name in request.headers}
        token = request.headers.get("authorization", "").removeprefix("Bearer ")
        self.exchanges.append(
            wire.Exchange(
                method=request.method,
                path=str(request.url).removeprefix(self._url),
                status=response.status_code,
                headers={**headers, **({"authorization": token} if token else {})},
                body=json.loads(body)
                if body and "json" in headers.get("content-type", "")
                else body.decode(),
                answer=_json(response),
                answer_headers={
                    name: response.headers[name] for name in KEPT_OF_ANSWERS if name in response.headers
                },
            )
        )
        return response

    async def aclose(self) -> None:
        await self._inner.aclose()


def _json(response: httpx.Response) -> Any:
    kind = response.headers.get("content-type", "")
    return response.json() if response.content and "json" in kind else None


class Stage:
    """See `tour.Stage`."""

    def __init__(self, url: str, database_url: str) -> None:
        self._url, self._database_url = url, database_url
        self.recorder = Recorder(url)
        self._store = httpx.AsyncClient(transport=self.recorder)

    def client(self, token: str | None = None) -> AsyncClient:
        return AsyncClient(self._url, ADMIN if token is None else token, self.recorder)

    async def close(self) -> None:
        await self._store.aclose()

    async def put(self, url: str, content: bytes) -> None:
        (await self._store.put(url, content=content)).raise_for_status()

    async def fetch(self, url: str) -> tuple[bytes, str]:
        answer = await self._store.get(url)
        return answer.content, answer.headers["etag"]

    async def assignment(self, node: str, token: str, etag: str, **fields: Any) -> tuple[Assignment, str]:
        """One that has these fields, by long polls; the recording has the last poll alone."""
        headers = {"authorization": f"Bearer {token}", **({"if-none-match": etag} if etag else {})}
        url, before = f"{self._url}/v1/nodes/{node}/assignment", len(self.recorder.exchanges)
        for _ in range(40):
            answer = await self._store.get(url, params={"wait": 5}, headers=headers, timeout=40)
            last = self.recorder.exchanges[-1]
            if answer.status_code == 200 and wire.has(last.answer, fields):
                self.recorder.exchanges[before:] = [replace(last, until=fields)]
                return Assignment.model_validate_json(answer.content), answer.headers["etag"]
        raise AssertionError(f"the assignment never had {fields}: {last}")

    async def queued(self, kind: str) -> str:
        query = f"SELECT id FROM tasks WHERE kind = '{kind}' AND phase = 'queued'"
        async with await psycopg.AsyncConnection.connect(self._database_url) as connection:
            (row,) = await (await connection.execute(query)).fetchall()  # type: ignore[arg-type]
        self.recorder.exchanges.append(wire.Exchange("SQL", query, 0, answer=[list(row)]))
        return str(row[0])

    async def until(self, call: Call[T], **fields: Any) -> T:
        """Asks until the answer has these fields; the recording has the last question alone."""
        before = len(self.recorder.exchanges)
        for _ in range(400):
            found = await self.client()(call)
            last = self.recorder.exchanges[-1]
            if wire.has(last.answer, fields):
                self.recorder.exchanges[before:] = [replace(last, until=fields)]
                return found
            await asyncio.sleep(0.05)
        raise AssertionError(f"{call.path} never had {fields}: {last.answer}")


def operations_of(description: dict[str, Any]) -> dict[str, dict[str, list[str]]]:
    """Path → method → parameters (`query page_token`; one that must be given ends with `!`)."""
    return {
        path: {
            method: [
                f"{each['in']} {each['name']}{'!' if each.get('required') else ''}"
                for each in operation.get("parameters", ())
            ]
            for method, operation in operations.items()
        }
        for path, operations in sorted(description["paths"].items())
    }


def _without_secrets(exchanges: list[wire.Exchange]) -> list[wire.Exchange]:
    """Secrets of a registry that is gone are harmless, and still have no place in a repository."""
    text = json.dumps([each.__dict__ for each in exchanges])
    secrets = dict.fromkeys(_SECRET.findall(text))
    for number, secret in enumerate(secrets, 1):
        text = text.replace(secret, f"slp_recorded_{number}")
    return [wire.Exchange(**each) for each in json.loads(text)]


async def record(directory: Path, settings: Settings, database_url: str) -> None:
    app = build(settings)
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        server = uvicorn.Server(uvicorn.Config(app, log_config=None, lifespan="on"))
        task = asyncio.create_task(server.serve(sockets=[listener]))
        while not server.started:
            await asyncio.sleep(0.05)
        url = f"http://127.0.0.1:{listener.getsockname()[1]}"
        try:
            stage = Stage(url, database_url)
            await tour.play(stage)
            await stage.close()
            async with patience.async_client() as http:
                description = (await http.get(f"{url}/openapi.json")).json()
        finally:
            server.should_exit = True
            await task
    wire.write(directory / "exchanges.jsonl", _without_secrets(stage.recorder.exchanges))
    (directory / "operations.json").write_text(json.dumps(operations_of(description), indent=1) + "\n")
    with psycopg.connect(database_url) as connection:
        schema.write(directory / "schema.json", schema.of(connection))


def main() -> None:
    directory = Path(sys.argv[1])
    directory.mkdir(parents=True, exist_ok=True)
    root = Path(tempfile.mkdtemp(prefix="slipway-record-"))
    root.chmod(0o711)
    with Stack(root / "data", throwaway=True, environ={}).running() as at:
        migrate.upgrade(at.database_url)
        settings = Settings(
            database_url=at.database_url,  # type: ignore[arg-type]
            redis_url=at.redis_url,  # type: ignore[arg-type]
            s3_endpoint_url=at.s3_endpoint_url,
            s3_access_key=at.s3_access_key,  # type: ignore[arg-type]
            s3_secret_key=at.s3_secret_key,  # type: ignore[arg-type]
            s3_bucket=at.bucket,
            admin_token=ADMIN,  # type: ignore[arg-type]
            look_every_s=0.2,
            node_stale_s=120,
        )
        asyncio.run(record(directory, settings, at.database_url))


if __name__ == "__main__":
    main()
