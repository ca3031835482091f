"""Use cases of aliases: names for versions, which never move traffic. Their history is the audit trail."""

from registry.contract.pages import Page
from registry.contract.versions import Alias, AliasChange, AliasSet, VersionStage
from registry.edge.pages import page
from registry.edge.unit import Unit
from registry.errors import Conflict, Invalid, NotFound
from registry.lifecycle.aliases import alias_fault
from registry.models import repository, service
from registry.models.represent import represent_alias, represent_alias_change
from registry.tables.models import AliasRow

UNFIT = (VersionStage.REJECTED, VersionStage.QUARANTINED)
ABSENT = 0


async def listing(unit: Unit, model: str) -> Page[Alias]:
    unit.principal.require_model(model)
    await service.model_row(unit.session, model)
    return Page(items=tuple(represent_alias(row) for row in await repository.aliases(unit.session, model)))


async def get(unit: Unit, model: str, name: str) -> Alias:
    """Raises NotFound."""
    unit.principal.require_model(model)
    row = await repository.alias(unit.session, model, name)
    if row is None:
        raise _unknown(model, name)
    return represent_alias(row)


async def history(unit: Unit, model: str, name: str, below: int | None, limit: int) -> Page[AliasChange]:
    """Newest first; also of an alias that is gone. Raises NotFound for one that never was."""
    unit.principal.require_model(model)
    rows = await repository.alias_changes(unit.session, model, name, below, limit)
    if not rows and below is None:
        await service.model_row(unit.session, model)
        raise _unknown(model, name)
    return page(rows, limit, lambda row: represent_alias_change(row, model, name), lambda row: row.id)


async def put(unit: Unit, model: str, name: str, body: AliasSet) -> Alias:
    """Raises Invalid for a reserved name, NotFound, and Conflict: for a version that nobody should be
    pointed at, and where the alias is not what the caller has seen."""
    unit.principal.require_model(model)
    fault = alias_fault(name)
    if fault is not None:
        raise Invalid(fault, "choose another name, such as champion or candidate")
    # Locked, so that it can't be quarantined between this look and the commit.
    version = await service.version_row(unit.session, model, body.version, lock=True)
    if version.phase in UNFIT:
        raise Conflict(
            f"{version.ref} is {version.phase}: {version.phase_reason}",
            "choose a version that may be used",
        )
    old = await repository.alias(unit.session, model, name, lock=True)
    if old is None:
        _expect(model, name, None, body.expected_version)
        row = await repository.add_alias(unit.session, model, name, body.version, unit.actor)
        if row is not None:
            made = represent_alias(row)
            unit.audit("alias.set", f"alias:{model}/{name}", None, made, body.reason)
            return made
        # Someone else made it since the look above, and has committed: it is there to be locked.
        old = await repository.alias(unit.session, model, name, lock=True)
    if old is None:
        raise Conflict(
            f"someone else made and deleted the alias {name} at the same moment", "repeat the request"
        )
    _expect(model, name, old, body.expected_version)
    before = represent_alias(old)
    await repository.move_alias(unit.session, old, body.version, unit.actor)
    made = represent_alias(old)
    unit.audit("alias.set", f"alias:{model}/{name}", before, made, body.reason)
    return made


async def delete(unit: Unit, model: str, name: str, expected_version: int | None) -> None:
    """Raises NotFound, and Conflict where the alias is not what the caller has seen."""
    unit.principal.require_model(model)
    old = await repository.alias(unit.session, model, name, lock=True)
    if old is None:
        raise _unknown(model, name)
    _expect(model, name, old, expected_version)
    await repository.delete_alias(unit.session, model, name)
    unit.audit("alias.delete", f"alias:{model}/{name}", represent_alias(old), None)


def _expect(model: str, name: str, row: AliasRow | None, expected: int | None) -> None:
    now = ABSENT if row is None else row.version
    if expected is None or expected == now:
        return
    said = f"names version {now}" if now else "does not exist"
    wanted = f"version {expected}" if expected else "to be new"
    raise Conflict(
        f"the alias {name} of {model} {said}; the request expected {wanted}",
        "read it again, and repeat the request with what it names now",
    )


def _unknown(model: str, name: str) -> NotFound:
    return NotFound(f"{model} has no alias {name}", f"GET /v1/models/{model}/aliases lists them")
