"""Rows as people see them."""

from collections.abc import Iterable

from registry.contract.versions import Alias, Metric, Model, Version
from registry.tables.models import AliasRow, MetricRow, ModelRow, VersionRow


def represent_model(row: ModelRow) -> Model:
    """`revision` counts what a PATCH can change; a new version does not make anyone's ETag stale."""
    return Model(
        name=row.name,
        task=row.task,
        description=row.description,
        owner=row.owner,
        tags=row.tags,
        latest_version=row.last_number or None,
        revision=row.revision,
        created_at=row.created_at,
        created_by=row.created_by,
    )


def represent_version(row: VersionRow, aliases: Iterable[AliasRow] = ()) -> Version:
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
            "contract": row.contract,
            "proven": row.contract.get("golden") is not None,
            "lineage": row.lineage,
            "description": row.description,
            "tags": row.tags,
            "aliases": [alias.name for alias in aliases if alias.version == row.number],
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
