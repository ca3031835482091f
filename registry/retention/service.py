"""Use cases of deletions. What is referred to stays: 409 with the names of its referrers."""

from collections.abc import Sequence
from functools import partial

from registry.contract.retention import SHORTEST_GRACE_S
from registry.contract.uploads import Blob
from registry.contract.versions import VersionStage
from registry.datasets import service as datasets
from registry.edge.scopes import Referrer, told
from registry.edge.unit import Unit
from registry.errors import Conflict, NotFound, Referenced
from registry.models import service as models
from registry.models.represent import represent_model, represent_version
from registry.retention import deletions, repository
from registry.retention.referrers import referrers
from registry.tables.datasets import DatasetRow
from registry.tables.models import ModelRow, VersionRow

NAMED = 20
DELETABLE = (VersionStage.DRAFT, VersionStage.REJECTED, VersionStage.ARCHIVED)


def refuse_if(unit: Unit, what: str, found: Sequence[Referrer], hint: str) -> None:
    """Raises Referenced with the names of the referrers."""
    if found:
        more = " and more" if len(found) == NAMED else ""
        named = told(unit.principal, found)
        raise Referenced(f"{what} is still referred to: {'; '.join(named)}{more}", hint, named)


async def version_row(unit: Unit, model: str, number: int) -> VersionRow:
    """Locked. Raises NotFound, Forbidden."""
    unit.principal.require_model(model)
    return await models.version_row(unit.session, model, number, lock=True)


async def delete_version(unit: Unit, row: VersionRow) -> None:
    """With its metrics, builds, engines and logs; its number is not given again. Its bytes go with the
    collector. `row` is locked. Raises Conflict by its stage, Referenced."""
    if row.phase not in DELETABLE:
        hint = (
            f"put it away first: slipway version archive {row.ref} --reason …"
            if row.phase == VersionStage.READY
            else "what was quarantined is evidence and stays"
            if row.phase == VersionStage.QUARANTINED
            else "wait until it is ready or rejected"
        )
        raise Conflict(f"{row.ref} is {row.phase}; {', '.join(DELETABLE)} versions can be deleted", hint)
    found = await deletions.of_version(unit.session, row.id, row.model, row.number, NAMED)
    refuse_if(unit, row.ref, found, "end what reasons lists first; what was released stays, as evidence")
    before, subject = represent_version(row), row.subject
    await deletions.delete_version(unit.session, row)
    unit.audit("version.delete", subject, before, None)


async def delete_model(unit: Unit, row: ModelRow) -> None:
    """A model without versions. `row` is locked. Raises Referenced."""
    found = await deletions.of_model(unit.session, row.name, NAMED)
    refuse_if(
        unit, f"the model {row.name}", found, "delete its versions first: slipway version delete MODEL@NUMBER"
    )
    before = represent_model(row)
    await deletions.delete_model(unit.session, row)
    unit.audit("model.delete", f"model:{before.name}", before, None)


async def check_dataset(unit: Unit, row: DatasetRow) -> None:
    """Raises Referenced."""
    found = await deletions.of_dataset(unit.session, row.name, row.version, NAMED)
    refuse_if(
        unit,
        f"the data set {row.name}@{row.version}",
        found,
        "it is part of their lineage and stays with them",
    )


async def delete_dataset(unit: Unit, row: DatasetRow, reason: str = "") -> None:
    """`row` is locked, so that nobody comes to refer to it. Its bytes go with the collector. Raises
    Referenced."""
    await check_dataset(unit, row)
    before = datasets.represent(row)
    await deletions.delete_dataset(unit.session, row)
    unit.audit("dataset.delete", f"dataset:{before.name}@{before.version}", before, None, reason)


async def delete_blob(unit: Unit, digest: str) -> None:
    """Bytes that nothing refers to, at once and whatever their age. Raises NotFound, Referenced, Conflict."""
    row = await repository.locked_blob(unit.session, digest)
    if row is None:
        raise NotFound(f"there is no blob {digest}", "it may have been deleted before")
    found = await referrers(unit.session, digest, NAMED)
    refuse_if(unit, f"the blob {digest}", found, "delete what refers to it first")
    if await repository.promised_lately(unit.session, row, SHORTEST_GRACE_S):
        raise Conflict(
            f"at {row.promised_at:%Y-%m-%dT%H:%M:%SZ} an upload was told that {digest} is here and need not "
            "be sent",
            f"ask again {SHORTEST_GRACE_S // 60} minutes after that",
        )
    before = Blob(digest=row.digest, size=row.size, verified_at=row.verified_at)
    await repository.give_up(unit.session, [row])
    unit.after_commit.append(partial(unit.resources.blobs.delete, row.object_key))
    unit.audit("blob.delete", f"blob:{digest}", before, None)
