"""Use cases of versions: reserve, seal, settle, archive, restore, quarantine."""

from collections.abc import Iterable
from datetime import UTC, datetime

from registry.contract.pages import Page
from registry.contract.versions import (
    FileEntry,
    Framework,
    Lineage,
    Signature,
    StageChange,
    Version,
    VersionContract,
    VersionCreate,
    VersionStage,
)
from registry.contract.wire import sha256_of
from registry.datasets import service as datasets
from registry.edge.pages import page
from registry.edge.unit import Unit, expect_revision
from registry.errors import Conflict, Invalid, Referenced
from registry.lifecycle.contracts import contract_faults, is_servable
from registry.lifecycle.manifest import manifest_faults
from registry.lifecycle.versions import VersionEvent
from registry.models import service, version_queries, views
from registry.models.represent import represent_version
from registry.tables.base import new_id
from registry.tables.journal import advance
from registry.tables.models import VersionRow
from registry.uploads import service as uploads

NAMED = 10
# The database gives number and times in the statement that inserts the version.
TOLD_LATER = datetime.fromtimestamp(0, UTC)


async def create(unit: Unit, model: str, body: VersionCreate) -> Version:
    """Reserves the next number. Raises NotFound, Invalid with all that is wrong, Forbidden."""
    unit.principal.require_model(model)
    _check(body)
    uploads.check_total(unit, body.files)
    await _check_lineage(unit, model, body)
    return await insert(unit, new_row(unit, model, body))


def new_row(unit: Unit, model: str, body: VersionCreate) -> VersionRow:
    """Of a version as declared; nothing is checked."""
    return VersionRow(
        id=new_id("ver"),
        model=model,
        number=1,
        framework=body.framework,
        files=[entry.model_dump(mode="json") for entry in body.files],
        digests=sorted({entry.digest for entry in body.files}),
        digest=content_digest(body),
        contract=body.contract.model_dump(mode="json"),
        lineage=body.lineage.model_dump(mode="json"),
        description=body.description,
        tags=dict(body.tags),
        phase=VersionStage.DRAFT,
        phase_reason="",
        phase_since=TOLD_LATER,
        revision=1,
        created_at=TOLD_LATER,
        created_by=unit.actor,
    )


async def reserve(
    unit: Unit, model: str, framework: Framework, lineage: Lineage, description: str, tags: dict[str, str]
) -> Version:
    """A draft without files: `declare` says later what it is made of. Raises NotFound, Forbidden."""
    unit.principal.require_model(model)
    # Not validated, for a person's declaration without files is refused, rightly.
    body = VersionCreate.model_construct(
        framework=framework,
        files=(),
        contract=VersionContract(signature=Signature(inputs=(), outputs=())),
        lineage=lineage,
        description=description,
        tags=tags,
    )
    await _check_lineage(unit, model, body)
    return await insert(unit, new_row(unit, model, body))


async def insert(unit: Unit, row: VersionRow) -> Version:
    """Under the model's next number. Raises NotFound."""
    draft = represent_version(row)
    made = await version_queries.create(
        unit.session, row, draft.model_dump(mode="json"), unit.via, unit.request_id
    )
    if made is None:
        await service.model_row(unit.session, row.model)
        raise Conflict(f"the model {row.model} is gone", "create it again")
    return draft.model_copy(
        update={"number": made.number, "created_at": made.created_at, "stage_since": made.since}
    )


def content_digest(body: VersionCreate) -> str:
    """Of files and contract: what the version is, whatever it is called. The order of files is no matter."""
    files = sorted((entry.model_dump(mode="json") for entry in body.files), key=lambda entry: entry["path"])
    return sha256_of({"files": files, "contract": body.contract.model_dump(mode="json")})


def _check(body: VersionCreate, *, with_contract: bool = True) -> None:
    paths = [entry.path for entry in body.files]
    faults = (*manifest_faults(paths), *(contract_faults(body.contract, paths) if with_contract else ()))
    if faults:
        more = f" (and {len(faults) - 1} more)" if len(faults) > 1 else ""
        raise Invalid(
            f"{faults[0]}{more}",
            "correct what reasons lists, then send the request again; no number was taken",
            faults,
        )


async def _check_lineage(unit: Unit, model: str, body: VersionCreate) -> None:
    lineage = body.lineage
    if lineage.parent_version is not None:
        await service.version_row(unit.session, model, lineage.parent_version)
    if lineage.training_data is not None:
        await datasets.require_known(unit.session, {lineage.training_data})


async def get(unit: Unit, model: str, number: int) -> Version:
    unit.principal.require_model(model)
    return await views.version(unit, await service.version_row(unit.session, model, number))


async def listing(unit: Unit, model: str, below: int | None, limit: int) -> Page[Version]:
    """Newest first."""
    unit.principal.require_model(model)
    await service.model_row(unit.session, model)
    rows = await version_queries.versions(unit.session, model, below, limit)
    made = {made.number: made for made in await views.versions(unit, rows[:limit])}
    return page(rows, limit, lambda row: made[row.number], lambda row: row.number)


async def seal(unit: Unit, model: str, number: int, reason: str = "") -> Version:
    """draft → verifying, and → ready at once where every file is verified. Repeating it changes nothing.

    `reason` stays with the version: why one without a serving contract can't be built. Raises Conflict that
    names files whose bytes never arrived.
    """
    unit.principal.require_model(model)
    row = await service.version_row(unit.session, model, number, lock=True)
    if row.phase in (VersionStage.VERIFYING, VersionStage.READY):
        return await views.version(unit, row)
    before = represent_version(row)
    if row.phase == VersionStage.DRAFT:
        await _check_uploaded(unit, row)
    await advance(unit.session, row, VersionEvent.SEAL, actor=unit.actor, reason=reason)
    await _settle(unit, row)
    made = await views.version(unit, row)
    unit.audit("version.seal", row.subject, before, made)
    return made


async def _check_uploaded(unit: Unit, row: VersionRow) -> None:
    if not row.files:
        raise Conflict(
            f"{row.ref} has no files yet: they are being copied from where it was registered",
            "wait; it becomes ready by itself, or rejected with the reason",
        )
    # Order matters: what is being verified is locked first, so that it can't become a blob unseen.
    arriving = await uploads.being_verified(unit.session, row.digests, hold=True)
    sizes = await uploads.blob_sizes(unit.session, row.digests)
    missing = [entry for entry in _files(row) if entry.digest not in sizes and entry.digest not in arriving]
    if missing:
        why = await uploads.why_missing(unit.session, [entry.digest for entry in missing])
        sentences = [f"{entry.path} ({entry.digest}): {why[entry.digest]}" for entry in missing]
        more = f" and {len(missing) - NAMED} more" if len(missing) > NAMED else ""
        raise Conflict(
            f"{row.ref} can't be ready, these files have not arrived: {'; '.join(sentences[:NAMED])}{more}",
            "upload them (slipway upload FILE), then ask again",
            sentences,
        )


async def files_verified(unit: Unit, digest: str) -> None:
    """A blob came to be: versions that waited for it alone become ready."""
    for row in await version_queries.verifying_with(unit.session, digest):
        before = represent_version(row)
        if await _settle(unit, row):
            unit.audit(f"version.{row.phase}", row.subject, before, represent_version(row), row.phase_reason)


async def file_rejected(unit: Unit, digest: str, reason: str) -> None:
    """Bytes were not what they were declared to be: versions that waited for them are rejected, unless
    the right ones are there, or on their way, by another upload."""
    rows = await version_queries.verifying_with(unit.session, digest)
    if digest in await uploads.being_verified(unit.session, [digest]):
        return
    if digest in await uploads.blob_sizes(unit.session, [digest]):
        return
    for row in rows:
        before = represent_version(row)
        names = ", ".join(entry.path for entry in _files(row) if entry.digest == digest)
        said = f"{names}: {reason}"
        await advance(unit.session, row, VersionEvent.MISMATCHED, actor=unit.actor, reason=said)
        unit.audit("version.rejected", row.subject, before, represent_version(row), said)


async def _settle(unit: Unit, row: VersionRow) -> bool:
    """verifying → ready or rejected, once every file is a blob. The row is locked."""
    sizes = await uploads.blob_sizes(unit.session, row.digests)
    wrong = [
        f"{entry.path} has {sizes[entry.digest]} bytes, {entry.size} were declared"
        for entry in _files(row)
        if entry.digest in sizes and sizes[entry.digest] != entry.size
    ]
    if wrong:
        await advance(
            unit.session, row, VersionEvent.MISMATCHED, actor=unit.actor, reason="; ".join(wrong[:NAMED])
        )
        return True
    if any(digest not in sizes for digest in row.digests):
        return False
    # Why it can't be built is what people want to know of it from now on.
    kept = "" if is_servable(VersionContract.model_validate(row.contract)) else row.phase_reason
    await advance(unit.session, row, VersionEvent.VERIFIED, actor=unit.actor, reason=kept)
    return True


async def declare(unit: Unit, row: VersionRow, body: VersionCreate) -> None:
    """What a draft that was reserved without files is made of. `row` is locked. Raises Invalid, TooLarge."""
    _check(body, with_contract=is_servable(body.contract))
    uploads.check_total(unit, body.files)
    before = represent_version(row)
    declared = new_row(unit, row.model, body)
    row.framework, row.contract = declared.framework, declared.contract
    row.files, row.digests, row.digest = declared.files, declared.digests, declared.digest
    row.lineage = declared.lineage
    await unit.session.flush()
    unit.audit("version.declare", row.subject, before, represent_version(row))


async def relabel(
    unit: Unit, row: VersionRow, *, description: str | None = None, tags: dict[str, str] | None = None
) -> None:
    """What people write on a version, sealed or not: no part of what it is. `row` is locked."""
    before = represent_version(row)
    row.description = row.description if description is None else description
    row.tags = row.tags if tags is None else tags
    await unit.session.flush()
    unit.audit("version.relabel", row.subject, before, represent_version(row))


async def fail(unit: Unit, row: VersionRow, reason: str) -> None:
    """draft → rejected: its files never came. `row` is locked."""
    await _change(unit, row, VersionEvent.FAILED, reason)


async def archive(unit: Unit, model: str, number: int, body: StageChange) -> Version:
    """Raises Referenced that names the deployments and releases that have an arm of it."""
    row = await _for_change(unit, model, number, body)
    serving = await views.serving(unit, row.id)
    if serving:
        raise Referenced(
            f"{row.ref} is in use: {'; '.join(serving)}",
            "release another version there first; quarantine it if it must not be released again",
            serving,
        )
    return await _change(unit, row, VersionEvent.ARCHIVE, body.reason)


async def restore(unit: Unit, model: str, number: int, body: StageChange) -> Version:
    """archived → verifying, and → ready at once where every file is verified.

    Raises Conflict that names files whose bytes never arrived: it was archived as a draft.
    """
    row = await _for_change(unit, model, number, body)
    before = await views.version(unit, row)
    if row.phase == VersionStage.ARCHIVED:
        await _check_uploaded(unit, row)
    await advance(unit.session, row, VersionEvent.RESTORE, actor=unit.actor, reason=body.reason)
    await _settle(unit, row)
    made = await views.version(unit, row)
    unit.audit("version.restore", row.subject, before, made, body.reason)
    return made


async def quarantine(unit: Unit, model: str, number: int, body: StageChange) -> Version:
    """Never released again. Allowed where it serves: its warnings say where. Not its reason, which everybody
    reads whose scope includes the model."""
    row = await _for_change(unit, model, number, body)
    return await _change(unit, row, VersionEvent.QUARANTINE, body.reason)


async def _for_change(unit: Unit, model: str, number: int, body: StageChange) -> VersionRow:
    unit.principal.require_model(model)
    row = await service.version_row(unit.session, model, number, lock=True)
    expect_revision(row.revision, body.expected_revision, row.ref)
    return row


async def _change(unit: Unit, row: VersionRow, event: VersionEvent, reason: str) -> Version:
    before = await views.version(unit, row)
    await advance(unit.session, row, event, actor=unit.actor, reason=reason)
    made = await views.version(unit, row)
    unit.audit(f"version.{event}", row.subject, before, made, reason)
    return made


def _files(row: VersionRow) -> Iterable[FileEntry]:
    return (FileEntry.model_validate(entry) for entry in row.files)
