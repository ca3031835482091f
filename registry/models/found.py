"""Versions that a search found, as JSON of plain rows: as objects, a page cost far more than finding it did.

What comes out is, byte for byte, what `represent.represent_version` says of the same version.
"""

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from functools import lru_cache
from typing import Any, NamedTuple

import orjson

from registry.contract.versions import Lineage, VersionContract

# Of jsonb columns the text: what is the same in many versions is looked up by it.
COLUMNS = """v.id, v.model, v.number, v.phase, v.phase_reason, v.phase_since, v.framework, v.files::text,
    v.digest, v.contract::text, v.lineage::text, v.description, v.tags::text, v.revision, v.created_at,
    v.created_by, ARRAY(
        SELECT a.name FROM aliases a WHERE a.model = v.model AND a.version = v.number ORDER BY a.name
    ) AS alias_names"""


class Found(NamedTuple):
    """One row of COLUMNS, and what it was ordered by if that was a metric."""

    id: str
    model: str
    number: int
    stage: str
    stage_reason: str
    stage_since: datetime
    framework: str
    files: str
    digest: str
    contract: str
    lineage: str
    description: str
    tags: str
    revision: int
    created_at: datetime
    created_by: str
    aliases: Sequence[str]
    measured: float | None


def page(found: Iterable[Found], warnings: Mapping[str, Sequence[str]], next_page_token: str | None) -> bytes:
    """A `Page[Version]`. `warnings`: by id, where there are any."""
    items = [_told(version, warnings.get(version.id, ())) for version in found]
    return orjson.dumps({"items": items, "next_page_token": next_page_token}, option=orjson.OPT_UTC_Z)


def _told(version: Found, warnings: Sequence[str]) -> dict[str, Any]:
    contract, proven = _contract(version.contract)
    return {
        "model": version.model,
        "number": version.number,
        "stage": version.stage,
        "stage_reason": version.stage_reason,
        "stage_since": version.stage_since,
        "framework": version.framework,
        "files": [
            {"path": file["path"], "digest": file["digest"], "size": file["size"]}
            for file in orjson.loads(version.files)
        ],
        "digest": version.digest,
        "contract": contract,
        "proven": proven,
        "lineage": _LINEAGE | orjson.loads(version.lineage),
        "description": version.description,
        "tags": orjson.loads(version.tags),
        "aliases": version.aliases,
        "warnings": warnings,
        "revision": version.revision,
        "created_at": version.created_at,
        "created_by": version.created_by,
    }


_LINEAGE = Lineage().model_dump(mode="json")


@lru_cache(maxsize=1024)
def _contract(stored: str) -> tuple[orjson.Fragment, bool]:
    """As it is told, and whether it is proven. Versions of a model mostly share one."""
    contract = VersionContract.model_validate_json(stored)
    return orjson.Fragment(contract.model_dump_json()), contract.golden is not None
