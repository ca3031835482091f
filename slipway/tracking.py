"""An MLflow tracking server, to be read: its registered models, their versions, runs and files."""

import os
import posixpath
from collections.abc import Iterator
from pathlib import Path
from types import TracebackType
from typing import Self, TypeVar
from urllib.parse import quote, unquote, urlsplit

import httpx
from pydantic import ValidationError

from registry.client.given import token_of
from registry.contract.wire import Wire

W = TypeVar("W", bound=Wire)

API = "/api/2.0/mlflow"
ARTIFACTS = "/api/2.0/mlflow-artifacts/artifacts"
PAGE = 200
CHUNK = 1 << 20
PROMPT_TAG = "mlflow.prompt.is_prompt"
_TIMEOUT = httpx.Timeout(60, connect=5)


class TrackingError(Exception):
    """The tracking server refused (`status`), did not answer, or its answer is not MLflow's."""

    def __init__(self, message: str, status: int | None = None) -> None:
        super().__init__(message)
        self.status = status


class Unreadable(Exception):
    """Files that this server does not hand out."""


class Pair(Wire):
    key: str
    value: str = ""


class MetricPair(Wire):
    key: str
    value: float | str | None = None


class AliasPair(Wire):
    alias: str
    version: str


class RemoteModel(Wire):
    name: str
    description: str = ""
    tags: tuple[Pair, ...] = ()
    aliases: tuple[AliasPair, ...] = ()

    @property
    def is_prompt(self) -> bool:
        return any(tag.key == PROMPT_TAG and tag.value.lower() == "true" for tag in self.tags)


class RemoteVersion(Wire):
    name: str
    version: str
    status: str = "READY"
    description: str = ""
    source: str = ""
    run_id: str | None = None
    run_link: str = ""
    model_id: str | None = None
    tags: tuple[Pair, ...] = ()


class RunData(Wire):
    metrics: tuple[MetricPair, ...] = ()
    params: tuple[Pair, ...] = ()


class _Models(Wire):
    registered_models: tuple[RemoteModel, ...] = ()
    next_page_token: str | None = None


class _Versions(Wire):
    model_versions: tuple[RemoteVersion, ...] = ()
    next_page_token: str | None = None


class _Uri(Wire):
    artifact_uri: str


class _Run(Wire):
    data: RunData = RunData()


class _RunAnswer(Wire):
    run: _Run


class _File(Wire):
    path: str
    is_dir: bool = False
    file_size: int = 0


class _Files(Wire):
    files: tuple[_File, ...] = ()


class TrackingServer:
    """Credentials are those of MLflow's own clients: MLFLOW_TRACKING_TOKEN, or …_USERNAME and …_PASSWORD; or
    those in the URL.

    Every call raises TrackingError.
    """

    def __init__(self, url: str) -> None:
        bare, user, password = _without_user(url.rstrip("/"))
        # What it signs in with is no part of where versions come from, nor of what is said of it.
        self.url = bare
        token = token_of(os.environ.get("MLFLOW_TRACKING_TOKEN", ""), "MLFLOW_TRACKING_TOKEN")
        user = os.environ.get("MLFLOW_TRACKING_USERNAME") or user
        password = os.environ.get("MLFLOW_TRACKING_PASSWORD") or password
        self._http = httpx.Client(
            timeout=_TIMEOUT,
            trust_env=False,
            headers={"authorization": f"Bearer {token}"} if token else {},
            auth=(user, password) if user and not token else None,
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._http.close()

    def models(self) -> Iterator[RemoteModel]:
        """By name; prompts are left out."""
        token: str | None = None
        while True:
            page = _parsed(
                _Models, self._get(f"{API}/registered-models/search", token, max_results=str(PAGE))
            )
            yield from (model for model in page.registered_models if not model.is_prompt)
            token = page.next_page_token
            if not token:
                return

    def versions(self, name: str) -> list[RemoteVersion]:
        """Oldest first."""
        quoted = f'"{name}"' if "'" in name else f"'{name}'"
        found: list[RemoteVersion] = []
        token: str | None = None
        while True:
            answer = self._get(
                f"{API}/model-versions/search", token, filter=f"name={quoted}", max_results=str(PAGE)
            )
            page = _parsed(_Versions, answer)
            found += page.model_versions
            token = page.next_page_token
            if not token:
                return sorted(found, key=lambda version: int(version.version))

    def run(self, run_id: str) -> RunData | None:
        """None: the server does not know it (any more)."""
        try:
            answer = self._get(f"{API}/runs/get", None, run_id=run_id)
        except TrackingError as error:
            if error.status != 404:
                raise
            return None
        return _parsed(_RunAnswer, answer).run.data

    def folder(self, version: RemoteVersion) -> str:
        """Where its files are among the server's artifacts. Raises Unreadable."""
        answer = self._get(
            f"{API}/model-versions/get-download-uri", None, name=version.name, version=version.version
        )
        uri = _parsed(_Uri, answer).artifact_uri
        parts = urlsplit(uri)
        here = urlsplit(self.url).netloc
        if parts.scheme == "mlflow-artifacts" and parts.netloc in ("", here):
            return unquote(parts.path).strip("/")
        if parts.scheme in ("http", "https") and parts.netloc == here and ARTIFACTS in parts.path:
            return unquote(parts.path.partition(ARTIFACTS)[2]).strip("/")
        raise Unreadable(
            f"its files are at {uri}, which {self.url} does not hand out (it runs without --serve-artifacts)"
        )

    def files(self, folder: str) -> dict[str, int]:
        """Path below the folder → bytes."""
        found: dict[str, int] = {}
        waiting = [""]
        while waiting:
            below = waiting.pop()
            answer = self._get(ARTIFACTS, None, path=posixpath.join(folder, below))
            for file in _parsed(_Files, answer).files:
                path = posixpath.join(below, posixpath.basename(file.path))
                if file.is_dir:
                    waiting.append(path)
                else:
                    found[path] = file.file_size
        return found

    def fetch(self, folder: str, path: str, dest: Path) -> None:
        """Downloads one file."""
        dest.parent.mkdir(parents=True, exist_ok=True)
        url = f"{self.url}{ARTIFACTS}/{quote(posixpath.join(folder, path))}"
        try:
            with self._http.stream("GET", url) as answer, dest.open("wb") as file:
                if not answer.is_success:
                    answer.read()
                    raise _refusal(answer)
                for chunk in answer.iter_bytes(CHUNK):
                    file.write(chunk)
        except httpx.HTTPError as error:
            raise TrackingError(f"{self.url} does not answer: {error or type(error).__name__}") from error

    def _get(self, path: str, page_token: str | None, /, **query: str) -> bytes:
        params = query | ({"page_token": page_token} if page_token else {})
        try:
            answer = self._http.get(f"{self.url}{path}", params=params)
        except httpx.HTTPError as error:
            raise TrackingError(f"{self.url} does not answer: {error or type(error).__name__}") from error
        if not answer.is_success:
            raise _refusal(answer)
        return answer.content


def _without_user(url: str) -> tuple[str, str, str]:
    """The address alone, and the user and the password that it held."""
    parts = urlsplit(url)
    held, _, host = parts.netloc.rpartition("@")
    user, _, password = held.partition(":")
    return parts._replace(netloc=host).geturl(), unquote(user), unquote(password)


def _refusal(answer: httpx.Response) -> TrackingError:
    said = f"{answer.request.url} answered {answer.status_code}: {answer.text[:300]}"
    return TrackingError(said, answer.status_code)


def _parsed(kind: type[W], content: bytes) -> W:
    try:
        return kind.model_validate_json(content)
    except ValidationError as error:
        raise TrackingError(f"the answer is not MLflow's: {error.errors()[0]['msg']}") from error
