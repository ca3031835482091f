"""Speaking MLflow's API without its client: what a test of one rule needs."""

import contextlib
from collections.abc import AsyncIterator, Mapping
from typing import Any

import httpx

from tests.registry.conftest import ADMIN, Registry
from tests.registry.support import verify_all

API = "/api/2.0/mlflow"
ARTIFACTS = "/api/2.0/mlflow-artifacts/artifacts"

PYFUNC = b"flavors:\n  python_function:\n    loader_module: some.module\nrun_id: 0123abcd\n"
ONNX = b"""flavors:
  onnx:
    data: model.onnx
  python_function:
    loader_module: mlflow.onnx
signature:
  inputs: '[{"type": "tensor", "tensor-spec": {"dtype": "float32", "shape": [-1, 4]}, "name": "x"}]'
  outputs: '[{"type": "tensor", "tensor-spec": {"dtype": "float32", "shape": [-1, 3]}, "name": "y"}]'
"""
FILES: Mapping[str, bytes] = {"MLmodel": PYFUNC, "data/weights.bin": b"weights" * 1000}


class Mlflow:
    """Answers are decoded; refusals are told as (status, error code, message)."""

    def __init__(self, http: httpx.AsyncClient) -> None:
        self.http = http

    async def ask(self, method: str, path: str, body: Mapping[str, object] | None = None) -> dict[str, Any]:
        answer = await self._send(method, path, body)
        assert answer.status_code == 200, answer.text
        found: dict[str, Any] = answer.json()
        return found

    async def refused(
        self, method: str, path: str, body: Mapping[str, object] | None = None
    ) -> tuple[int, str, str]:
        answer = await self._send(method, path, body)
        assert answer.status_code >= 400, answer.text
        return answer.status_code, answer.json()["error_code"], answer.json()["message"]

    async def _send(self, method: str, path: str, body: Mapping[str, object] | None) -> httpx.Response:
        url = path if path.startswith("/api") else f"{API}/{path}"
        if method == "GET":
            return await self.http.get(url, params=body)  # type: ignore[arg-type]
        return await self.http.request(method, url, json=body)

    async def create_model(self, name: str = "iris", **more: object) -> None:
        await self.ask("POST", "registered-models/create", {"name": name, **more})

    async def leave(self, folder: str, files: Mapping[str, bytes] = FILES) -> str:
        """Leaves files in the inbox; gives the source to register."""
        for path, content in files.items():
            answer = await self.http.put(f"{ARTIFACTS}/inbox/{folder}/{path}", content=content)
            assert answer.status_code == 200, answer.text
        return f"{self.http.base_url}{ARTIFACTS}/inbox/{folder}".replace("//api", "/api")

    async def version(self, name: str, source: str, **more: object) -> dict[str, Any]:
        body = {"name": name, "source": source, **more}
        found: dict[str, Any] = (await self.ask("POST", "model-versions/create", body))["model_version"]
        return found

    async def get(self, name: str, version: str) -> dict[str, Any]:
        found: dict[str, Any] = (
            await self.ask("GET", "model-versions/get", {"name": name, "version": version})
        )["model_version"]
        return found


@contextlib.asynccontextmanager
async def mlflow(registry: Registry, token: str = ADMIN) -> AsyncIterator[Mlflow]:
    headers = {"authorization": f"Bearer {token}"}
    async with httpx.AsyncClient(base_url=registry.url, headers=headers, trust_env=False, timeout=30) as http:
        yield Mlflow(http)


async def registered(
    registry: Registry, client: Mlflow, name: str = "iris", **more: object
) -> dict[str, Any]:
    """A ready version of files that were left here."""
    made = await client.version(name, await client.leave(f"{name}-files"), **more)
    await verify_all(registry)
    return await client.get(name, made["version"])
