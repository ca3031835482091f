"""Use cases of registered models, as MLflow's clients ask for them. Changes are those of the rooms below."""

from registry.contract.versions import AliasSet, ModelCreate, ModelPatch, StageChange, VersionStage
from registry.edge.unit import Unit
from registry.errors import Conflict, Invalid, NotFound
from registry.lifecycle.aliases import alias_fault
from registry.mlflow import filters, names, repository, represent, versions
from registry.mlflow.errors import MlflowError
from registry.mlflow.filters import MODEL_ATTRIBUTES, MODEL_ORDERS, Order
from registry.mlflow.wire import ModelCreation, ModelsAnswer, ModelVersion, RegisteredModel, Tag
from registry.models import aliases
from registry.models import service as own
from registry.models import versions as own_versions
from registry.retention import service as retention

DEFAULT_RESULTS = 100
MOST_RESULTS = 1000
DELETED = "deleted through MLflow's API"
STAGES = ("none", "staging", "production", "archived")


async def create(unit: Unit, body: ModelCreation, base_url: str) -> RegisteredModel:
    """Raises MlflowError where the name is taken, Invalid, Forbidden."""
    if any(tag.key == names.PROMPT_TAG and tag.value.lower() == "true" for tag in body.tags):
        raise Invalid(f"{body.name!r} is a prompt; this registry keeps models", "keep prompts in MLflow")
    made = ModelCreate(
        name=names.model_name(body.name),
        description=names.description(body.description),
        tags=names.tags(body.tags),
    )
    try:
        await own.create(unit, made)
    except Conflict as error:
        raise MlflowError("RESOURCE_ALREADY_EXISTS", 400, f"{error.detail}. Hint: {error.hint}") from error
    await unit.session.flush()
    return await get(unit, made.name, base_url)


async def get(unit: Unit, name: str, base_url: str) -> RegisteredModel:
    """Raises NotFound, Forbidden."""
    unit.principal.require_model(name)
    row = await repository.model(unit.session, name)
    if row is None:
        raise NotFound(f"there is no model {name}", "create it first: client.create_registered_model(NAME)")
    named = await repository.aliases(unit.session, [name])
    return represent.model(row, base_url, named, await repository.newest(unit.session, [name]))


async def search(
    unit: Unit, given: str | None, orders: list[str], token: str | None, limit: int | None, base_url: str
) -> ModelsAnswer:
    """Only those in the token's scope. Raises Invalid."""
    limit = results(limit, DEFAULT_RESULTS, MOST_RESULTS)
    found = await repository.models(
        unit.session,
        filters.read_filter(given, MODEL_ATTRIBUTES),
        filters.read_orders(orders, MODEL_ORDERS, (Order("name", ascending=True),)),
        token or None,
        limit,
        unit.principal.models,
    )
    shown = [row.name for row in found.rows]
    named = await repository.aliases(unit.session, shown)
    newest = await repository.newest(unit.session, shown)
    return ModelsAnswer(
        registered_models=tuple(represent.model(row, base_url, named, newest) for row in found.rows),
        next_page_token=found.token,
    )


def results(given: int | None, otherwise: int, most: int) -> int:
    """Raises Invalid."""
    if given is None:
        return otherwise
    if not 1 <= given <= most:
        raise Invalid(f"max_results is {given}", f"ask for 1 to {most}; next_page_token leads on")
    return given


async def update(unit: Unit, name: str, description: str | None, base_url: str) -> RegisteredModel:
    unit.principal.require_model(name)
    row = await own.model_row(unit.session, name, lock=True)
    await own.patch(unit, row, ModelPatch(description=names.description(description)))
    return await get(unit, name, base_url)


async def set_tag(unit: Unit, name: str, tag: Tag) -> None:
    unit.principal.require_model(name)
    row = await own.model_row(unit.session, name, lock=True)
    await own.patch(unit, row, ModelPatch(tags={**row.tags, **names.tags((tag,))}))


async def delete_tag(unit: Unit, name: str, key: str) -> None:
    """One that is not there is no error, as with MLflow."""
    unit.principal.require_model(name)
    row = await own.model_row(unit.session, name, lock=True)
    if key in row.tags:
        kept = {other: value for other, value in row.tags.items() if other != key}
        await own.patch(unit, row, ModelPatch(tags=kept))


def refuse_rename(name: str) -> None:
    """Raises Invalid, always."""
    raise Invalid(
        f"{name!r} can't be renamed: versions, deployments and the audit trail know a model by its name",
        "create a model of the new name, and copy versions to it: client.copy_model_version(URI, NEW_NAME)",
    )


async def delete(unit: Unit, name: str) -> None:
    """With its versions. Their bytes go with the collector; a new model of this name goes on counting.

    Raises Referenced with what still needs one of them; nothing is deleted then.
    """
    unit.principal.require_model(name)
    await own.model_row(unit.session, name)
    for alias in await repository.aliases(unit.session, [name]):
        await aliases.delete(unit, name, alias.name, None)
    for number in await repository.numbers(unit.session, name):
        await delete_version(unit, name, number)
    await retention.delete_model(unit, await own.model_row(unit.session, name, lock=True))


async def delete_version(unit: Unit, name: str, number: int) -> None:
    """With the aliases that name it. Raises NotFound, Conflict by its stage, Referenced."""
    unit.principal.require_model(name)
    row = await own.version_row(unit.session, name, number)
    for alias in await repository.named(unit.session, name, number):
        await aliases.delete(unit, name, alias, None)
    if row.phase == VersionStage.READY:
        await own_versions.archive(unit, name, number, StageChange(reason=DELETED))
    await retention.delete_version(unit, await retention.version_row(unit, name, number))


async def set_alias(unit: Unit, name: str, alias: str, number: int) -> None:
    """Never moves traffic. Raises Invalid, NotFound, Conflict for a version that nobody should load."""
    fault = alias_fault(alias)
    if fault is not None:
        raise Invalid(fault, "choose another name, such as champion or candidate")
    await aliases.put(unit, name, names.alias_name(alias), AliasSet(version=number))


async def delete_alias(unit: Unit, name: str, alias: str) -> None:
    """One that is not there is no error, as with MLflow. Raises NotFound for the model."""
    unit.principal.require_model(name)
    await own.model_row(unit.session, name)
    if alias in (row.name for row in await repository.aliases(unit.session, [name])):
        await aliases.delete(unit, name, alias, None)


async def by_alias(unit: Unit, name: str, alias: str, base_url: str) -> ModelVersion:
    """Raises MlflowError as MLflow does: an alias that is not there is a wrong parameter."""
    unit.principal.require_model(name)
    await own.model_row(unit.session, name)
    for row in await repository.aliases(unit.session, [name]):
        if row.name == alias:
            return await versions.get(unit, name, row.version, base_url)
    raise MlflowError("INVALID_PARAMETER_VALUE", 400, f"Registered model alias {alias} not found.")


async def latest(unit: Unit, name: str, stages: tuple[str, ...], base_url: str) -> tuple[ModelVersion, ...]:
    """The newest ready version, for there are no stages: every version reads None. Raises Invalid."""
    unit.principal.require_model(name)
    await own.model_row(unit.session, name)
    asked = {stage.lower() for stage in stages}
    unknown = sorted(asked.difference(STAGES))
    if unknown:
        raise Invalid(f"{unknown[0]!r} is no stage", "stages are None, Staging, Production, Archived")
    if asked and "none" not in asked:
        return ()
    row = (await repository.newest(unit.session, [name])).get(name)
    if row is None:
        return ()
    return (represent.version(row, base_url, await repository.aliases(unit.session, [name])),)
