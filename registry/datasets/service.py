"""Use cases of data sets."""

from collections.abc import Collection
from datetime import UTC, datetime

from sqlalchemy.ext.asyncio import AsyncSession

from registry.contract.datasets import Dataset, DatasetCreate, DatasetKind, DatasetPatch
from registry.contract.pages import Page
from registry.contract.versions import DatasetRef
from registry.contract.wire import sha256_of
from registry.datasets import repository
from registry.edge.pages import page
from registry.edge.unit import Unit
from registry.errors import Conflict, Invalid, NotFound
from registry.lifecycle.manifest import manifest_faults
from registry.tables.datasets import DatasetRow
from registry.uploads import service as uploads

NAMED = 10
SEPARATOR = "@"
# Names that description and index get where a data set is laid out as a folder.
LAID_OUT = ("dataset.json", "index.jsonl")
# The database gives number and time in the statement that inserts the data set.
TOLD_LATER = datetime.fromtimestamp(0, UTC)


async def create(unit: Unit, body: DatasetCreate) -> Dataset:
    """The name's next version. Raises Invalid, and Conflict that names files that are not there."""
    files = (*body.shards, body.index)
    paths = [entry.path for entry in files]
    shards = [entry.path for entry in body.shards]
    faults = tuple(dict.fromkeys([*manifest_faults(paths), *manifest_faults(shards, LAID_OUT)]))
    if faults:
        raise Invalid(faults[0], "rename the files that reasons lists, then send the request again", faults)
    uploads.check_total(unit, files)
    sizes = await uploads.blob_sizes(unit.session, [entry.digest for entry in files])
    missing = [f"{entry.path} ({entry.digest})" for entry in files if entry.digest not in sizes]
    if missing:
        more = f" and {len(missing) - NAMED} more" if len(missing) > NAMED else ""
        raise Conflict(
            f"these files are not uploaded and verified: {', '.join(missing[:NAMED])}{more}",
            "upload them first (slipway upload FILE), then send the request again",
            missing,
        )
    wrong = [
        f"{entry.path} has {sizes[entry.digest]} bytes, {entry.size} were declared"
        for entry in files
        if sizes[entry.digest] != entry.size
    ]
    if wrong:
        raise Invalid(wrong[0], "digest and size must be taken of the same bytes", wrong)
    row = _row(unit, body)
    row.version, row.created_at = await repository.create(unit.session, row)
    made = represent(row)
    unit.audit("dataset.create", f"dataset:{made.name}@{made.version}", None, made)
    return made


def _row(unit: Unit, body: DatasetCreate) -> DatasetRow:
    content = body.model_dump(mode="json", include={"kind", "form", "shards", "index", "rows"})
    return DatasetRow(
        name=body.name,
        version=1,
        kind=body.kind,
        form=body.form,
        shards=content["shards"],
        index=content["index"],
        rows=body.rows,
        digest=sha256_of(content),
        digests=sorted({entry.digest for entry in (*body.shards, body.index)}),
        provenance=body.provenance,
        tags=dict(body.tags),
        retain_until=body.retain_until,
        revision=1,
        created_at=TOLD_LATER,
        created_by=unit.actor,
    )


def represent(row: DatasetRow) -> Dataset:
    return Dataset.model_validate(
        {
            "name": row.name,
            "version": row.version,
            "kind": row.kind,
            "form": row.form,
            "shards": row.shards,
            "index": row.index,
            "rows": row.rows,
            "digest": row.digest,
            "provenance": row.provenance,
            "tags": row.tags,
            "retain_until": row.retain_until,
            "revision": row.revision,
            "created_at": row.created_at,
            "created_by": row.created_by,
        }
    )


async def get(session: AsyncSession, name: str, version: int) -> Dataset:
    """Raises NotFound."""
    row = await repository.dataset(session, name, version)
    if row is None:
        raise await _unknown(session, DatasetRef(name=name, version=version))
    return represent(row)


async def locked(session: AsyncSession, name: str, version: int) -> DatasetRow:
    """The row; until the end of this transaction nobody else comes to refer to it. Raises NotFound."""
    row = await repository.dataset(session, name, version, lock=True)
    if row is None:
        raise await _unknown(session, DatasetRef(name=name, version=version))
    return row


async def patch(unit: Unit, row: DatasetRow, body: DatasetPatch) -> Dataset:
    """How long it stays. `row` is locked, and its revision is the one that the caller has seen."""
    before = represent(row)
    row.retain_until = body.retain_until
    await unit.session.flush()
    made = represent(row)
    unit.audit("dataset.patch", f"dataset:{made.name}@{made.version}", before, made)
    return made


async def listing(session: AsyncSession, after: str | None, limit: int) -> Page[Dataset]:
    """By name and version."""
    rows = await repository.datasets(session, None if after is None else position(after), limit)
    return page(rows, limit, represent, lambda row: f"{row.name}{SEPARATOR}{row.version}")


def position(after: str) -> tuple[str, int]:
    """Of NAME@VERSION in the order of all; nothing is before all of them. Raises Invalid."""
    if not after:
        return "", 0
    name, _, version = after.rpartition(SEPARATOR)
    if not version.isdecimal():
        raise Invalid("page_token was not made by this list", "send none to begin")
    return name, int(version)


async def require_known(session: AsyncSession, refs: Collection[DatasetRef]) -> None:
    """None of them can be deleted before this transaction ends. Raises NotFound for the first one that does
    not exist."""
    known = await repository.known(session, refs)
    for ref in sorted(refs, key=lambda ref: (ref.name, ref.version)):
        if ref not in known:
            raise await _unknown(session, ref)


async def require_kind(session: AsyncSession, ref: DatasetRef, kinds: Collection[DatasetKind]) -> None:
    """The data set can't be deleted before this transaction ends. Raises NotFound, and Invalid for a data
    set of another kind."""
    found = (await repository.known(session, [ref])).get(ref)
    if found is None:
        raise await _unknown(session, ref)
    if found.kind not in kinds:
        raise Invalid(
            f"{ref.name}@{ref.version} is a {found.kind} set; this needs {' or '.join(kinds)}",
            "name another data set, or register these files under the kind that they are meant for",
        )


async def _unknown(session: AsyncSession, ref: DatasetRef) -> NotFound:
    newest = await repository.newest(session, ref.name)
    return NotFound(
        f"there is no data set {ref.name}@{ref.version}",
        f"its newest version is {newest}" if newest else "register it by POST /v1/datasets",
    )
