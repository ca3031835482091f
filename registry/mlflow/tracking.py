"""A tracking server, as far as a copy needs it: where a model's files are, and their bytes.

Only servers that the settings name are asked, redirects are not followed, and nothing of the answer but its
bytes is believed: names are checked like those of any client.
"""

import posixpath
from collections.abc import AsyncIterator
from types import TracebackType
from typing import Self
from urllib.parse import quote

import httpx

from registry.contract.wire import Wire
from registry.mlflow.inbox import MOST_FILES
from registry.mlflow.sources import ARTIFACTS

CHUNK = 1 << 20
_TIMEOUT = httpx.Timeout(60, connect=5)
_API = "/api/2.0/mlflow"


class SourceRefused(Exception):
    """The source can't be had, and asking again would not help."""


class _File(Wire):
    path: str
    is_dir: bool = False
    file_size: int | None = None


class _Files(Wire):
    files: tuple[_File, ...] = ()


class _Place(Wire):
    artifact_uri: str


class _Model(Wire):
    info: _Place


class _ModelAnswer(Wire):
    model: _Model


class _RunAnswer(Wire):
    run: _Model


class TrackingServer:
    """Raises SourceRefused for what the server refuses, httpx.HTTPError where it does not answer."""

    def __init__(self, url: str, token: str | None) -> None:
        self._url = url
        self._http = httpx.AsyncClient(
            timeout=_TIMEOUT,
            trust_env=False,
            follow_redirects=False,
            headers={"authorization": f"Bearer {token}"} if token else {},
        )

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._http.aclose()

    async def place_of_model(self, model_id: str) -> str:
        """The artifact URI of a logged model."""
        answer = await self._get(f"{_API}/logged-models/{quote(model_id, safe='')}", {})
        return _ModelAnswer.model_validate_json(answer).model.info.artifact_uri

    async def place_of_run(self, run_id: str) -> str:
        """The artifact URI of a run."""
        answer = await self._get(f"{_API}/runs/get", {"run_id": run_id})
        return _RunAnswer.model_validate_json(answer).run.info.artifact_uri

    async def files(self, folder: str) -> list[str]:
        """Paths of all files below a folder, relative to it."""
        found: list[str] = []
        waiting = [""]
        while waiting:
            below = waiting.pop()
            answer = await self._get(ARTIFACTS, {"path": posixpath.join(folder, below)})
            for file in _Files.model_validate_json(answer).files:
                path = posixpath.join(below, posixpath.basename(file.path))
                (waiting if file.is_dir else found).append(path)
                if len(found) + len(waiting) > MOST_FILES:
                    raise SourceRefused(f"there are more than {MOST_FILES} files below {folder}")
        return sorted(found)

    async def read(self, path: str) -> AsyncIterator[bytes]:
        """The bytes of a file, piece by piece."""
        url = f"{self._url}{ARTIFACTS}/{quote(path)}"
        async with self._http.stream("GET", url, headers={"accept-encoding": "identity"}) as answer:
            await self._check(answer)
            async for chunk in answer.aiter_raw(CHUNK):
                yield chunk

    async def _get(self, path: str, query: dict[str, str]) -> bytes:
        answer = await self._http.get(f"{self._url}{path}", params=query)
        await self._check(answer)
        return answer.content

    async def _check(self, answer: httpx.Response) -> None:
        if answer.status_code >= 500 or answer.status_code == 429:
            answer.raise_for_status()
        if answer.status_code != 200:
            said = (await answer.aread())[:300].decode(errors="replace")
            raise SourceRefused(f"{self._url} answered {answer.status_code} for {answer.url.path}: {said}")
