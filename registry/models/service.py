"""Use cases of models, and what other rooms ask about models and versions."""

from sqlalchemy.ext.asyncio import AsyncSession

from registry.contract.identity import parse_version
from registry.contract.versions import DatasetRef, Metric, Model, ModelCreate, ModelPatch
from registry.edge.unit import Unit
from registry.errors import Conflict, NotFound
from registry.models import repository, version_queries
from registry.models.represent import represent_metric, represent_model
from registry.tables.models import ModelRow, VersionRow


async def create(unit: Unit, body: ModelCreate) -> Model:
    """Raises Conflict where the name is taken, Forbidden outside the token's scope."""
    unit.principal.require_model(body.name)
    row = ModelRow(
        name=body.name,
        task=body.task,
        description=body.description,
        owner=unit.actor,
        tags=dict(body.tags),
        created_by=unit.actor,
    )
    if not await repository.add_model(unit.session, row):
        raise Conflict(
            f"there is a model {body.name} already",
            f"add a version to it (POST /v1/models/{body.name}/versions), or choose another name",
        )
    made = represent_model(await model_row(unit.session, body.name))
    unit.audit("model.create", f"model:{body.name}", None, made)
    return made


async def get(unit: Unit, name: str) -> Model:
    unit.principal.require_model(name)
    return represent_model(await model_row(unit.session, name))


async def patch(unit: Unit, row: ModelRow, body: ModelPatch) -> Model:
    """Sets what the body gives. `row` is locked, and its revision is the one that the caller has seen."""
    before = represent_model(row)
    for name in body.model_fields_set:
        value = getattr(body, name)
        if value is not None:
            setattr(row, name, value)
    await unit.session.flush()
    made = represent_model(row)
    unit.audit("model.patch", f"model:{row.name}", before, made)
    return made


async def model_row(session: AsyncSession, name: str, *, lock: bool = False) -> ModelRow:
    """Raises NotFound."""
    row = await repository.model(session, name, lock=lock)
    if row is None:
        raise NotFound(f"there is no model {name}", "create it first: slipway model create NAME")
    return row


async def version_row(session: AsyncSession, model: str, number: int, *, lock: bool = False) -> VersionRow:
    """Raises NotFound, for the model or for the version."""
    row = await version_queries.version(session, model, number, lock=lock)
    if row is None:
        latest = (await model_row(session, model)).newest
        raise NotFound(
            f"{model} has no version {number}",
            f"its newest version is {latest}" if latest else "it has no version yet",
        )
    return row


async def version_by_id(session: AsyncSession, version_id: str) -> VersionRow:
    """The version that a row of the database refers to."""
    return await version_queries.by_id(session, version_id)


async def newest_metric(session: AsyncSession, version: str, dataset: DatasetRef, name: str) -> Metric | None:
    """The one that counts, of `MODEL@NUMBER` (a precision behind it is ignored); None: never measured."""
    ref = parse_version(version)
    row = await version_row(session, ref.model, ref.number)
    found = await version_queries.newest_metric(session, row.id, dataset, name)
    return None if found is None else represent_metric(found)
