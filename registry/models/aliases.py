"""Use cases of aliases: names for versions, which never move traffic. Their history is the audit trail."""

from registry.contract.pages import Page
from registry.contract.versions import Alias, VersionStage
from registry.edge.unit import Unit
from registry.errors import Conflict, NotFound
from registry.models import repository, service
from registry.models.represent import represent_alias

UNFIT = (VersionStage.REJECTED, VersionStage.QUARANTINED)


async def listing(unit: Unit, model: str) -> Page[Alias]:
    unit.principal.require_model(model)
    await service.model_row(unit.session, model)
    return Page(items=tuple(represent_alias(row) for row in await repository.aliases(unit.session, model)))


async def put(unit: Unit, model: str, name: str, number: int) -> Alias:
    """Raises NotFound, and Conflict for a version that nobody should be pointed at."""
    unit.principal.require_model(model)
    version = await service.version_row(unit.session, model, number)
    if version.phase in UNFIT:
        raise Conflict(
            f"{version.ref} is {version.phase}: {version.phase_reason}",
            "choose a version that may be used",
        )
    old = await repository.alias(unit.session, model, name)
    before = None if old is None else represent_alias(old)
    made = represent_alias(await repository.set_alias(unit.session, model, name, number, unit.actor))
    unit.audit("alias.set", f"alias:{model}/{name}", before, made)
    return made


async def delete(unit: Unit, model: str, name: str) -> None:
    """Raises NotFound."""
    unit.principal.require_model(model)
    old = await repository.alias(unit.session, model, name)
    if old is None:
        raise NotFound(f"{model} has no alias {name}", f"GET /v1/models/{model}/aliases lists them")
    await repository.delete_alias(unit.session, model, name)
    unit.audit("alias.delete", f"alias:{model}/{name}", represent_alias(old), None)
