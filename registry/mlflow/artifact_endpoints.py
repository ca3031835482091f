"""Artifacts over HTTP, as MLflow's clients fetch and leave them: `/api/2.0/mlflow-artifacts/…`.

`models/NAME/VERSION/…` are the files of registered versions, `inbox/…` is where clients leave files. Bytes
that leave go by a redirect to the object store; those that come pass through here, for clients know no
presigned URLs, and are never held as a whole.
"""

from collections.abc import Iterable
from typing import Annotated

from fastapi import APIRouter, Query, Request
from fastapi.responses import RedirectResponse

from registry.contract.tokens import Role
from registry.contract.versions import FileEntry
from registry.edge.roles import READERS
from registry.edge.route import transaction
from registry.edge.unit import Unit, UnitOfWork, requires
from registry.errors import NotFound, Unavailable
from registry.mlflow import inbox, names, versions
from registry.mlflow.errors import MlflowError, MlflowLongRoute, MlflowRoute
from registry.mlflow.sources import INBOX
from registry.mlflow.wire import Artifact, ArtifactsAnswer, Nothing
from registry.uploads import receiving
from registry.uploads import service as uploads

PREFIX = "/api/2.0/mlflow-artifacts"
# The beginning by which clients know that they have to send a file in one piece.
NO_PARTS = "Multipart upload is not supported for the current artifact repository"
SOON_S = 1

router = APIRouter(prefix=PREFIX, tags=["mlflow"], route_class=MlflowRoute, include_in_schema=False)
# Opens its own transactions, see `put`.
long_router = APIRouter(prefix=PREFIX, tags=["mlflow"], route_class=MlflowLongRoute, include_in_schema=False)

_READ = requires(*READERS)
_WRITE = requires(Role.PUBLISHER)


@router.get("/artifacts", dependencies=[_READ], response_model_exclude_none=True)
async def listing(unit: UnitOfWork, path: Annotated[str, Query(max_length=2048)] = "") -> ArtifactsAnswer:
    """What is directly in a folder; a file is listed as itself."""
    folder = path.strip("/")
    found = await _files(unit, folder)
    if folder in found:
        return ArtifactsAnswer(files=(_file(folder.rpartition("/")[2], found[folder]),))
    return ArtifactsAnswer(files=tuple(_directly(folder, found.items())))


async def _files(unit: Unit, folder: str) -> dict[str, int]:
    """Path → size of all that is at or below it. Raises NotFound."""
    if folder == INBOX or folder.startswith(f"{INBOX}/"):
        rows = list(await inbox.below(unit, folder)) or [await inbox.one(unit, folder)]
        return {row.path: row.size for row in rows}
    root, entries = await _version(unit, folder)
    found = {f"{root}/{entry.path}": entry.size for entry in entries}
    return {path: size for path, size in found.items() if path == folder or path.startswith(f"{folder}/")}


async def _version(unit: Unit, path: str) -> tuple[str, list[FileEntry]]:
    """The root of a version's files, and its files. Raises NotFound, Conflict where it must not be loaded."""
    parts = path.split("/", 3)
    if len(parts) < 3 or parts[0] != "models" or not parts[2].isdigit():
        raise NotFound(
            f"there is nothing at {path[:200]!r}", f"files are at models/NAME/VERSION and below {INBOX}/"
        )
    row = await versions.loadable(unit, parts[1], names.version_number(parts[2]))
    return "/".join(parts[:3]), [FileEntry.model_validate(entry) for entry in row.files]


def _directly(folder: str, files: Iterable[tuple[str, int]]) -> Iterable[Artifact]:
    found: dict[str, Artifact] = {}
    for path, size in files:
        name, slash, _ = path[len(folder) + 1 :].partition("/")
        found.setdefault(name, Artifact(path=name, is_dir=True) if slash else _file(name, size))
    return (found[name] for name in sorted(found))


def _file(name: str, size: int) -> Artifact:
    return Artifact(path=name, is_dir=False, file_size=size)


@router.get("/artifacts/{path:path}", dependencies=[_READ], status_code=307, response_class=RedirectResponse)
async def fetch(path: str, unit: UnitOfWork) -> RedirectResponse:
    """Redirects to the bytes at the object store; that URL needs no token, and clients send it none."""
    return RedirectResponse(await uploads.location(unit, await _digest(unit, path)), 307)


async def _digest(unit: Unit, path: str) -> str:
    if not path.startswith(f"{INBOX}/"):
        root, entries = await _version(unit, path)
        for entry in entries:
            if f"{root}/{entry.path}" == path:
                return entry.digest
        raise NotFound(f"there is no file {path}", "list its folder")
    row = await inbox.one(unit, path)
    if row.digest not in await uploads.blob_sizes(unit.session, [row.digest]):
        raise Unavailable(f"{path} is being verified", "ask again in a moment", retry_after_s=SOON_S)
    return row.digest


@long_router.put("/artifacts/{path:path}")
async def put(path: str, request: Request) -> Nothing:
    """Leaves a file. No session is held while its bytes come."""
    inbox.check_path(path)
    async with transaction(request) as unit:
        unit.principal.require(Role.PUBLISHER)
        await inbox.check_owner(unit, path)
        resources = unit.resources
    received = await receiving.receive(resources, request.stream(), inbox.wanted_head(path))
    async with transaction(request) as unit:
        await inbox.keep(unit, path, received)
    return Nothing()


@router.delete("/artifacts/{path:path}", dependencies=[_WRITE])
async def delete(path: str, unit: UnitOfWork) -> Nothing:
    """Of what was left below inbox/. Versions that were registered from it keep their files."""
    if not path.startswith(f"{INBOX}/"):
        raise NotFound(f"nothing at {path[:200]!r} can be deleted here", "delete the version instead")
    await inbox.delete(unit, path.rstrip("/"))
    return Nothing()


@router.api_route("/{path:path}", methods=["GET", "POST", "PUT", "PATCH", "DELETE"], dependencies=[_READ])
async def not_served(path: str, request: Request) -> Nothing:
    message = NO_PARTS if path.startswith("mpu/") else f"{request.url.path} is not served here"
    raise MlflowError("ENDPOINT_NOT_FOUND", 404, message)
