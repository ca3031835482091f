"""Models and versions as MLflow's clients see them."""

from collections.abc import Iterable, Mapping
from datetime import datetime
from typing import Any, assert_never

from sqlalchemy import Row

from registry.contract.versions import VersionStage
from registry.mlflow.sources import ARTIFACTS
from registry.mlflow.wire import ModelVersion, NamedAlias, RegisteredModel, Tag
from registry.tables.models import AliasRow

PENDING, READY, FAILED = "PENDING_REGISTRATION", "READY", "FAILED_REGISTRATION"


def status(stage: VersionStage) -> str:
    """A quarantined version must not be loaded, which MLflow has no word for but this."""
    match stage:
        case VersionStage.DRAFT | VersionStage.VERIFYING:
            return PENDING
        case VersionStage.READY | VersionStage.ARCHIVED:
            return READY
        case VersionStage.REJECTED | VersionStage.QUARANTINED:
            return FAILED
        case _:
            assert_never(stage)


def download_uri(base_url: str, model: str, number: int) -> str:
    """Where an unmodified client fetches a version, whatever its tracking server is."""
    return f"{base_url}{ARTIFACTS}/models/{model}/{number}"


def version(row: Row[Any], base_url: str, aliases: Iterable[AliasRow]) -> ModelVersion:
    stage = VersionStage(row.phase)
    said = (
        f"{stage}: {row.phase_reason}" if row.phase_reason else "" if stage is VersionStage.READY else stage
    )
    if stage is VersionStage.DRAFT and row.trouble:
        said = f"{stage}: {row.trouble}"
    return ModelVersion(
        name=row.model,
        version=str(row.number),
        creation_timestamp=_milliseconds(row.created_at),
        last_updated_timestamp=_milliseconds(row.phase_since),
        user_id=row.created_by,
        description=row.description,
        source=row.source or download_uri(base_url, row.model, row.number),
        run_id=row.run_id,
        run_link=row.run_link or "",
        model_id=row.model_id or None,
        status=status(stage),
        status_message=said or None,
        tags=_tags(row.tags),
        aliases=tuple(
            alias.name for alias in aliases if (alias.model, alias.version) == (row.model, row.number)
        ),
    )


def model(
    row: Row[Any], base_url: str, aliases: Iterable[AliasRow], newest: Mapping[str, Row[Any]]
) -> RegisteredModel:
    own = [alias for alias in aliases if alias.model == row.name]
    latest = newest.get(row.name)
    return RegisteredModel(
        name=row.name,
        creation_timestamp=_milliseconds(row.created_at),
        last_updated_timestamp=_milliseconds(row.changed_at),
        user_id=row.created_by,
        description=row.description,
        latest_versions=() if latest is None else (version(latest, base_url, own),),
        tags=_tags(row.tags),
        aliases=tuple(NamedAlias(alias=alias.name, version=str(alias.version)) for alias in own),
    )


def _tags(tags: Mapping[str, str]) -> tuple[Tag, ...]:
    return tuple(Tag(key=key, value=value) for key, value in sorted(tags.items()))


def _milliseconds(moment: datetime) -> int:
    return int(moment.timestamp() * 1000)
