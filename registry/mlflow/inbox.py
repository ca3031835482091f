"""Files that clients leave here before they register what they belong to, and those that are being copied."""

import re
from collections.abc import Sequence

from registry.contract.tokens import Role
from registry.edge.unit import Unit
from registry.errors import Forbidden, Invalid, NotFound
from registry.lifecycle.manifest import name_fault
from registry.mlflow import artifacts
from registry.mlflow.mlmodel import MOST_TEXT, TELLING
from registry.mlflow.sources import INBOX
from registry.tables.mlflow import MlflowArtifactRow
from registry.uploads import receiving
from registry.uploads.receiving import Received

COPIES = "copies"
MOST_FILES = 10_000
LONGEST_PATH = 1024

_LOGGED = re.compile(r"(?:^|/)models/(?P<id>m-[A-Za-z0-9_-]{1,128})/artifacts/")


def check_path(path: str) -> None:
    """Of a file that a client leaves. Raises Invalid."""
    fault = name_fault(path)
    if fault is not None:
        raise Invalid(fault, "choose another name for the file")
    if not path.startswith(f"{INBOX}/") or len(path) > LONGEST_PATH:
        raise Invalid(
            f"{path[:80]!r} is no place for files; they are left below {INBOX}/, under at most "
            f"{LONGEST_PATH} characters",
            f"set the experiment's artifact location to …/mlflow-artifacts/artifacts/{INBOX}/NAME",
        )


def wanted_head(path: str) -> int:
    """How many of a file's first bytes say what the model is."""
    return MOST_TEXT if path.rpartition("/")[2] in TELLING else 0


async def check_owner(unit: Unit, path: str) -> None:
    """Raises Forbidden where someone else left a file there."""
    row = await artifacts.one(unit.session, path)
    if row is not None and row.created_by != unit.actor and not unit.principal.has(Role.ADMIN):
        raise Forbidden(
            f"{row.created_by} left a file at {path}", "leave yours under another name or experiment"
        )


async def keep(unit: Unit, path: str, received: Received) -> None:
    """The file is at `path` from now on; its bytes are being verified."""
    await check_owner(unit, path)
    await receiving.record(unit, received)
    logged = _LOGGED.search(path)
    row = MlflowArtifactRow(
        path=path,
        digest=received.digest,
        size=received.size,
        logged_model=logged["id"] if logged else None,
        head=_text(received.head) if wanted_head(path) and received.size <= MOST_TEXT else None,
        created_by=unit.actor,
    )
    await artifacts.put(unit.session, row)


def _text(head: bytes) -> str | None:
    try:
        return head.decode().replace("\0", "")
    except UnicodeDecodeError:
        return None


async def below(unit: Unit, path: str) -> Sequence[MlflowArtifactRow]:
    """All files below a folder, by path; only those that the caller may see. Raises Invalid for too many."""
    rows = await artifacts.below(unit.session, path, MOST_FILES + 1)
    if len(rows) > MOST_FILES:
        raise Invalid(f"there are more than {MOST_FILES} files below {path}", "name a folder further down")
    return [row for row in rows if _visible(unit, row)]


async def of_logged_model(unit: Unit, model_id: str) -> tuple[str, Sequence[MlflowArtifactRow]]:
    """The folder of a logged model, and its files. Empty: none were left here, or not for the caller."""
    rows = [
        row for row in await artifacts.of_model(unit.session, model_id, MOST_FILES) if _visible(unit, row)
    ]
    if not rows:
        return "", ()
    found = _LOGGED.search(rows[0].path)
    assert found is not None
    folder = rows[0].path[: found.end()].rstrip("/")
    return folder, [row for row in rows if row.path.startswith(f"{folder}/")]


async def one(unit: Unit, path: str) -> MlflowArtifactRow:
    """Raises NotFound, also for what the caller may not see."""
    row = await artifacts.one(unit.session, path)
    if row is None or not _visible(unit, row):
        raise NotFound(f"there is no file {path}", "list its folder")
    return row


async def delete(unit: Unit, path: str) -> None:
    """A file, or all files below a folder; their bytes go with the collector. Raises NotFound, Forbidden."""
    file = await artifacts.one(unit.session, path)
    rows = [file] if file is not None else list(await artifacts.below(unit.session, path, MOST_FILES))
    rows = [row for row in rows if _visible(unit, row)]
    if not rows:
        raise NotFound(f"there is nothing at {path}", "list its folder")
    others = sorted({row.created_by for row in rows} - {unit.actor})
    if others and not unit.principal.has(Role.ADMIN):
        raise Forbidden(f"files below {path} belong to {', '.join(others)}", "delete your own")
    await artifacts.remove(unit.session, [row.path for row in rows])


def _visible(unit: Unit, row: MlflowArtifactRow) -> bool:
    """What a file belongs to is not known, so that tokens of some models see their own files only."""
    return not unit.principal.models or row.created_by == unit.actor
