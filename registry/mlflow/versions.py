"""Use cases of model versions, as MLflow's clients ask for them."""

import hashlib
from collections.abc import Mapping, Sequence
from typing import assert_never

from registry.contract.mlflow import ORIGIN, MlflowVersion
from registry.contract.versions import (
    FileEntry,
    Framework,
    Lineage,
    Version,
    VersionCreate,
    VersionStage,
)
from registry.edge.unit import Unit
from registry.errors import Conflict, Invalid, NotFound
from registry.mlflow import filters, inbox, names, repository, represent, sources
from registry.mlflow.filters import VERSION_ATTRIBUTES, VERSION_ORDERS, Order
from registry.mlflow.mlmodel import TELLING, describe
from registry.mlflow.sources import Bucket, Left, Logged, Registered, Run, Tracked
from registry.mlflow.wire import ModelVersion, Tag, VersionCreation, VersionsAnswer
from registry.models import aliases, versions
from registry.models import service as models
from registry.tables.mlflow import MlflowArtifactRow, MlflowVersionRow
from registry.tables.models import VersionRow

DEFAULT_RESULTS = 10_000
MOST_RESULTS = 200_000
LARGEST_PAGE = 10_000
NEWEST_FIRST = (
    Order("last_updated_timestamp", ascending=False),
    Order("name", ascending=True),
    Order("version_number", ascending=False),
)
TOTAL = NEWEST_FIRST[1:]


async def create(unit: Unit, body: VersionCreation, base_url: str) -> ModelVersion:
    """A version with the files of its source: at once where they are here, else they are copied meanwhile.

    Raises NotFound for the model, Invalid for a source that is not read, Forbidden.
    """
    name = names.model_name(body.name)
    unit.principal.require_model(name)
    await models.model_row(unit.session, name)
    source = sources.read(body.source)
    match source:
        case Registered():
            number = await _copied(unit, name, body, source)
        case Left():
            number = await _left(unit, name, body, source.path, await inbox.below(unit, source.path))
        case Logged():
            folder, files = await inbox.of_logged_model(unit, source.model_id)
            number = (
                await _left(unit, name, body, folder, files)
                if files
                else await _later(unit, name, body, source)
            )
        case Run() | Tracked() | Bucket():
            number = await _later(unit, name, body, source)
        case _:
            assert_never(source)
    return await get(unit, name, number, base_url)


async def _reserve(
    unit: Unit, name: str, body: VersionCreation, lineage: Lineage, *, waiting: bool
) -> VersionRow:
    """A draft without files, and where it came from."""
    made = await versions.reserve(
        unit,
        name,
        Framework.PYFUNC,
        lineage,
        names.description(body.description),
        names.tags(body.tags),
    )
    row = await models.version_row(unit.session, name, made.number, lock=True)
    unit.session.add(
        MlflowVersionRow(
            version_id=row.id,
            source=body.source,
            run_link=(body.run_link or "")[: sources.LONGEST],
            model_id=(body.model_id or "")[: sources.LONGEST],
            waiting=waiting,
        )
    )
    await unit.session.flush()
    return row


async def _copied(unit: Unit, name: str, body: VersionCreation, source: Registered) -> int:
    """Of another version: the same bytes, nothing moves."""
    unit.principal.require_model(source.model)
    if source.alias is not None:
        number = (await aliases.get(unit, source.model, source.alias)).version
    else:
        assert source.number is not None
        number = source.number
    origin = await models.version_row(unit.session, source.model, number)
    if origin.phase != VersionStage.READY:
        raise Conflict(
            f"{origin.ref} is {origin.phase}; only a ready version is copied", "choose another one"
        )
    parent = number if source.model == name else None
    lineage = Lineage.model_validate(origin.lineage).model_copy(update={"parent_version": parent})
    if names.run_id(body.run_id):
        lineage = lineage.model_copy(update={"training_run": body.run_id})
    row = await _reserve(unit, name, body, lineage, waiting=False)
    same = VersionCreate.model_validate(
        {
            "framework": origin.framework,
            "files": origin.files,
            "contract": origin.contract,
            "lineage": lineage,
        }
    )
    await versions.declare(unit, row, same)
    await versions.seal(unit, name, row.number, origin.phase_reason)
    return row.number


async def _left(
    unit: Unit, name: str, body: VersionCreation, folder: str, files: Sequence[MlflowArtifactRow]
) -> int:
    if not files:
        raise Invalid(
            f"no files were left below {folder}",
            "log the model first, with an artifact location at this registry; see docs/mlflow.md",
        )
    row = await _reserve(unit, name, body, Lineage(training_run=names.run_id(body.run_id)), waiting=False)
    await make_of(unit, row, folder, files)
    return row.number


async def make_of(unit: Unit, row: VersionRow, folder: str, files: Sequence[MlflowArtifactRow]) -> None:
    """The draft gets these files and what they say of it, and is sealed. `row` is locked.

    Raises Invalid for names that can't be kept, Conflict where bytes did not arrive.
    """
    start = len(folder) + 1
    entries = tuple(FileEntry(path=file.path[start:], digest=file.digest, size=file.size) for file in files)
    await _fill(unit, row, entries, {file.path[start:]: file.head for file in files if file.head is not None})


async def _fill(
    unit: Unit, row: VersionRow, entries: tuple[FileEntry, ...], texts: Mapping[str, str]
) -> Version:
    found = describe(_telling(texts), [entry.path for entry in entries])
    lineage = Lineage.model_validate(row.lineage)
    if lineage.training_run is None and found.run_id:
        lineage = lineage.model_copy(update={"training_run": found.run_id[: names.MAX_RUN_ID]})
    made = VersionCreate(framework=found.framework, files=entries, contract=found.contract, lineage=lineage)
    await versions.declare(unit, row, made)
    return await versions.seal(unit, row.model, row.number, found.reason)


async def bring(unit: Unit, body: MlflowVersion) -> Version:
    """A version of a tracking server, whose files are uploaded already: sealed at once.

    Raises Invalid where a text is not that of its file, NotFound, Conflict for bytes that did not arrive.
    """
    unit.principal.require_model(body.model)
    digests = {entry.path: entry.digest for entry in body.files}
    for path, text in body.texts.items():
        if digests.get(path) != f"sha256-{hashlib.sha256(text.encode()).hexdigest()}":
            raise Invalid(f"the text of {path!r} is not that of a file of this version", "send it as it is")
    lineage = Lineage(training_run=body.run_id, parameters={**body.parameters, ORIGIN: body.origin})
    asked = VersionCreation(
        name=body.model,
        source=body.source or body.origin,
        run_link=body.run_link,
        description=body.description,
        tags=tuple(Tag(key=key, value=value) for key, value in body.tags.items()),
    )
    row = await _reserve(unit, body.model, asked, lineage, waiting=False)
    return await _fill(unit, row, body.files, body.texts)


def _telling(texts: Mapping[str, str]) -> Mapping[str, str]:
    """Of a file's name in several folders the one nearest to the root comes first."""
    found = [item for item in texts.items() if item[0].rpartition("/")[2] in TELLING]
    return dict(sorted(found, key=lambda item: (item[0].count("/"), item[0])))


async def _later(
    unit: Unit, name: str, body: VersionCreation, source: Logged | Run | Tracked | Bucket
) -> int:
    sources.check_allowed(source, unit.resources.settings)
    run_id = names.run_id(body.run_id or (source.run_id if isinstance(source, Run) else None))
    row = await _reserve(unit, name, body, Lineage(training_run=run_id), waiting=True)
    unit.after_commit.append(unit.resources.copies.nudge)
    return row.number


async def get(unit: Unit, name: str, number: int, base_url: str) -> ModelVersion:
    """Raises NotFound, Forbidden."""
    unit.principal.require_model(name)
    row = await repository.version(unit.session, name, number)
    if row is None:
        await models.version_row(unit.session, name, number)
        raise NotFound(f"{name} has no version {number}", "it was deleted a moment ago")
    return represent.version(row, base_url, await repository.aliases(unit.session, [name]))


async def search(
    unit: Unit, given: str | None, orders: list[str], token: str | None, limit: int, base_url: str
) -> VersionsAnswer:
    """Newest first unless an order is given; only those in the token's scope. Raises Invalid."""
    found = await repository.versions(
        unit.session,
        filters.read_filter(given, VERSION_ATTRIBUTES),
        filters.read_orders(orders, VERSION_ORDERS, TOTAL if orders else NEWEST_FIRST),
        token or None,
        min(limit, LARGEST_PAGE),
        unit.principal.models,
    )
    named = await repository.aliases(unit.session, {row.model for row in found.rows})
    return VersionsAnswer(
        model_versions=tuple(represent.version(row, base_url, named) for row in found.rows),
        next_page_token=found.token,
    )


async def download_uri(unit: Unit, name: str, number: int, base_url: str) -> str:
    """Raises NotFound, Conflict for a version that has no files yet or must not be loaded."""
    row = await loadable(unit, name, number)
    return represent.download_uri(base_url, row.model, row.number)


async def loadable(unit: Unit, name: str, number: int) -> VersionRow:
    """Raises NotFound, Conflict for a version that has no files yet or must not be loaded."""
    unit.principal.require_model(name)
    row = await models.version_row(unit.session, name, number)
    if row.phase not in (VersionStage.READY, VersionStage.ARCHIVED):
        said = f": {row.phase_reason}" if row.phase_reason else ""
        pending = represent.status(VersionStage(row.phase)) == represent.PENDING
        raise Conflict(
            f"{row.ref} is {row.phase}{said}, so it can't be loaded",
            "wait until it is READY" if pending else "choose another version",
        )
    return row


async def update(unit: Unit, name: str, number: int, description: str | None, base_url: str) -> ModelVersion:
    """What a version is called may change after it is sealed; what it is can't."""
    unit.principal.require_model(name)
    row = await models.version_row(unit.session, name, number, lock=True)
    await versions.relabel(unit, row, description=names.description(description))
    return await get(unit, name, number, base_url)


async def set_tag(unit: Unit, name: str, number: int, tag: Tag) -> None:
    unit.principal.require_model(name)
    row = await models.version_row(unit.session, name, number, lock=True)
    await versions.relabel(unit, row, tags={**row.tags, **names.tags((tag,))})


async def delete_tag(unit: Unit, name: str, number: int, key: str) -> None:
    """One that is not there is no error, as with MLflow."""
    unit.principal.require_model(name)
    row = await models.version_row(unit.session, name, number, lock=True)
    if key in row.tags:
        kept = {other: value for other, value in row.tags.items() if other != key}
        await versions.relabel(unit, row, tags=kept)


def refuse_transition(name: str, stage: str) -> None:
    """Raises Invalid, always."""
    raise Invalid(
        f"versions of {name!r} have no stages, so none can be moved to {stage or 'one'}",
        "name it by an alias: client.set_registered_model_alias(NAME, 'champion', VERSION); what serves is "
        "changed by a release: slipway promote MODEL@VERSION --to ENV/NAME",
    )
