"""A short digest of what a page shows: while it stays the same, nobody needs to fetch the page again."""

import hashlib

from pydantic import BaseModel

from registry.contract.deployments import DeploymentStatus
from web.registry import Failure


def revision(*parts: BaseModel | Failure | str | None) -> str:
    """Equal for equal content; a failure counts by what it says, not by its request id."""
    digest = hashlib.sha256()
    for part in parts:
        digest.update(_text(part).encode())
        digest.update(b"\0")
    return digest.hexdigest()[:16]


def _text(part: BaseModel | Failure | str | None) -> str:
    match part:
        case None:
            return ""
        case str():
            return part
        case Failure():
            return f"{part.what}: {part.detail}"
        case DeploymentStatus():
            # What changes with every report and is not shown as such.
            return part.model_dump_json(exclude={"as_of": True, "nodes": {"__all__": {"last_seen_at"}}})
        case _:
            return part.model_dump_json()
