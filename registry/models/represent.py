"""Rows as people see them."""

from collections.abc import Sequence
from functools import lru_cache
from typing import Any

import orjson

from registry.contract.versions import Alias, AliasChange, Metric, Model, Version, VersionContract
from registry.tables.journal import AuditRow
from registry.tables.models import AliasRow, MetricRow, ModelRow, VersionRow


def represent_model(row: ModelRow) -> Model:
    """`revision` counts what a PATCH can change; a new version does not make anyone's ETag stale."""
    return Model(
        name=row.name,
        task=row.task,
        description=row.description,
        owner=row.owner,
        tags=row.tags,
        latest_version=row.newest,
        revision=row.revision,
        created_at=row.created_at,
        created_by=row.created_by,
    )


@lru_cache(maxsize=1024)
def _parsed(contract: bytes | str) -> VersionContract:
    """Contracts are immutable, and versions of a model mostly share one; parsing it was most of a page."""
    return VersionContract.model_validate_json(contract)


def _contract(found: str | dict[str, Any]) -> VersionContract:
    """Searches ask for its text."""
    return _parsed(found if isinstance(found, str) else orjson.dumps(found))


def represent_version(
    row: VersionRow | Any, aliases: Sequence[str] = (), warnings: Sequence[str] = ()
) -> Version:
    """`row` may be any row with the columns of a version. `aliases`: names of this version."""
    contract = _contract(row.contract)
    return Version.model_validate(
        {
            "model": row.model,
            "number": row.number,
            "stage": row.phase,
            "stage_reason": row.phase_reason,
            "stage_since": row.phase_since,
            "framework": row.framework,
            "files": row.files,
            "digest": row.digest,
            "contract": contract,
            "proven": contract.golden is not None,
            "lineage": row.lineage,
            "description": row.description,
            "tags": row.tags,
            "aliases": aliases,
            "warnings": warnings,
            "revision": row.revision,
            "created_at": row.created_at,
            "created_by": row.created_by,
        }
    )


def represent_metric(row: MetricRow) -> Metric:
    return Metric.model_validate(
        {
            "dataset": {"name": row.dataset, "version": row.dataset_version},
            "split": row.split,
            "name": row.name,
            "value": row.value,
            "n": row.n,
            "higher_is_better": row.higher_is_better,
            "low": row.low,
            "high": row.high,
            "measured_by": row.measured_by,
            "engine": row.engine,
            "recorded_at": row.recorded_at,
            "recorded_by": row.recorded_by,
        }
    )


def represent_alias(row: AliasRow) -> Alias:
    return Alias(name=row.name, model=row.model, version=row.version, set_at=row.set_at, set_by=row.set_by)


def represent_alias_change(row: AuditRow, model: str, name: str) -> AliasChange:
    """Of an audit entry, whose before and after are the alias's representations."""
    return AliasChange(
        alias=name,
        model=model,
        before=None if row.before is None else row.before["version"],
        after=None if row.after is None else row.after["version"],
        at=row.at,
        by=row.actor,
        reason=row.reason,
        via=row.via,
    )
