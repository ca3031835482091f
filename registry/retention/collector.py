"""Mark and sweep, pass by pass. Marking is a query; what is marked is locked, looked at again, and given up.

Nothing is lost to a race: who is about to refer to bytes, or tells an upload that they are here, locks their
row; the collector locks it too, skips what others hold, and looks for referrers only then. Keys that were
given up are never written again, so their objects can be deleted at any later time, by anyone, twice.
"""

import re
from collections.abc import Callable, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import assert_never

from registry.blobs.store import Marker, StoredObject
from registry.contract.retention import Collected, Garbage, GarbageCollect, GarbageKind, Kept
from registry.contract.tokens import Role
from registry.contract.uploads import Blob, UploadPhase
from registry.datasets import service as datasets
from registry.edge.unit import Unit
from registry.errors import Invalid, NotFound, Referenced
from registry.retention import repository, service
from registry.retention.referrers import referenced
from registry.tables.uploads import BlobRow, UploadRow

OpenUnit = Callable[[], AbstractAsyncContextManager[Unit]]

PAGE = 1000
# Of rows that are locked together, and of objects that the store deletes by one call.
BATCH = 100
REASON = "nothing refers to it"
STAGING = "staging-"
_FINAL = re.compile(r"^(sha256-[0-9a-f]{64})(?:\.[0-9]+)?$")


class Stage(StrEnum):
    """In this order: data sets that go free bytes, and so does what the registry gave up."""

    DATASETS = "datasets"
    BLOBS = "blobs"
    OBJECTS = "objects"
    MULTIPARTS = "multiparts"


@dataclass(frozen=True)
class Swept:
    """Of one pass. `rest`: where this stage goes on; None: it is through."""

    garbage: tuple[Garbage, ...]
    rest: str | None
    kept: tuple[Kept, ...] = ()


@dataclass(frozen=True)
class Sweep:
    """What is the same for all stages of a pass. `before`: what is younger stays."""

    open_unit: OpenUnit
    before: datetime
    dry_run: bool


async def collect(open_unit: OpenUnit, body: GarbageCollect) -> Collected:
    """One pass. Raises Invalid for a cursor that is none, Forbidden, Unavailable."""
    stage, after = _position(body.cursor)
    async with open_unit() as unit:
        unit.principal.require(Role.ADMIN)
        grace_s = unit.resources.settings.gc_grace_s if body.grace_s is None else body.grace_s
        before = await repository.cutoff(unit.session, grace_s)
    swept = await _sweep(stage, Sweep(open_unit, before, body.dry_run), after)
    if not body.dry_run:
        await _delete_due(open_unit)
    return Collected(
        dry_run=body.dry_run,
        grace_s=grace_s,
        garbage=swept.garbage,
        kept=swept.kept,
        cursor=_cursor(stage, swept.rest),
    )


def _position(cursor: str | None) -> tuple[Stage, str]:
    if cursor is None:
        return Stage.DATASETS, ""
    name, _, after = cursor.partition(":")
    try:
        return Stage(name), after
    except ValueError as error:
        raise Invalid(
            "cursor was not made by this collector", "send cursor of the pass before, or none to begin"
        ) from error


def _cursor(stage: Stage, rest: str | None) -> str | None:
    if rest is not None:
        return f"{stage}:{rest}"
    stages = list(Stage)
    following = stages[stages.index(stage) + 1 :]
    return f"{following[0]}:" if following else None


async def _sweep(stage: Stage, sweep: Sweep, after: str) -> Swept:
    match stage:
        case Stage.DATASETS:
            return await _datasets(sweep, after)
        case Stage.BLOBS:
            return await _blobs(sweep, after)
        case Stage.OBJECTS:
            return await _objects(sweep, after)
        case Stage.MULTIPARTS:
            return await _multiparts(sweep, after)
        case _:
            assert_never(stage)


async def _datasets(sweep: Sweep, after: str) -> Swept:
    """Those past their retention that nothing refers to."""
    async with sweep.open_unit() as unit:
        rows = await repository.expired_datasets(unit.session, datasets.position(after), BATCH)
    garbage: list[Garbage] = []
    kept: list[Kept] = []
    for name, version, until in [(row.name, row.version, row.retain_until) for row in rows]:
        assert until is not None
        try:
            size = await _dataset(sweep, name, version)
        except Referenced as refused:
            kept.append(Kept(name=f"{name}@{version}", referrers=refused.reasons))
        except NotFound:
            continue
        else:
            garbage.append(
                Garbage(kind=GarbageKind.DATASET, name=f"{name}@{version}", size=size, since=until)
            )
    rest = f"{rows[-1].name}@{rows[-1].version}" if len(rows) == BATCH else None
    return Swept(tuple(garbage), rest, tuple(kept))


async def _dataset(sweep: Sweep, name: str, version: int) -> int:
    """Bytes of its files. Raises Referenced, and NotFound where someone was first."""
    async with sweep.open_unit() as unit:
        row = await datasets.locked(unit.session, name, version)
        size = sum(int(entry["size"]) for entry in [*row.shards, row.index])
        if sweep.dry_run:
            await service.check_dataset(unit, row)
        else:
            await service.delete_dataset(unit, row, f"retained until {row.retain_until:%Y-%m-%dT%H:%M:%SZ}")
    return size


async def _blobs(sweep: Sweep, after: str) -> Swept:
    """Verified bytes that nothing refers to."""
    async with sweep.open_unit() as unit:
        rows = await repository.old_blobs(unit.session, sweep.before, after, PAGE)
        named = await referenced(unit.session, [row.digest for row in rows])
    marked = [row for row in rows if row.digest not in named]
    if not sweep.dry_run:
        taken: list[BlobRow] = []
        for start in range(0, len(marked), BATCH):
            taken += await _give_up(sweep, [row.digest for row in marked[start : start + BATCH]])
        marked = taken
    garbage = tuple(
        Garbage(kind=GarbageKind.BLOB, name=row.digest, size=row.size, since=_since(row)) for row in marked
    )
    return Swept(garbage, rows[-1].digest if len(rows) == PAGE else None)


async def _give_up(sweep: Sweep, digests: Sequence[str]) -> list[BlobRow]:
    async with sweep.open_unit() as unit:
        locked = await repository.locked_blobs(unit.session, sweep.before, digests)
        # A statement of its own: it sees who came to refer to them until they were locked.
        named = await referenced(unit.session, [row.digest for row in locked])
        taken = [row for row in locked if row.digest not in named]
        await repository.give_up(unit.session, taken)
        for row in taken:
            before = Blob(digest=row.digest, size=row.size, verified_at=row.verified_at)
            unit.audit("blob.collect", f"blob:{row.digest}", before, None, REASON)
    return taken


def _since(row: BlobRow) -> datetime:
    return max(row.verified_at, row.promised_at or row.verified_at)


async def _objects(sweep: Sweep, after: str) -> Swept:
    """Objects in the store that the registry does not know: leavings of processes that died."""
    async with sweep.open_unit() as unit:
        store = unit.resources.blobs
    found = await store.objects(after, PAGE)
    staging = await _staging(sweep, [item for item in found if item.key.startswith(STAGING)])
    orphans = await _orphans(sweep, [item for item in found if item.at < sweep.before])
    if not sweep.dry_run:
        for start in range(0, len(staging), BATCH):
            await store.delete_all([item.key for item in staging[start : start + BATCH]])
    garbage = (*_told(GarbageKind.STAGING, staging), *_told(GarbageKind.ORPHAN, orphans))
    return Swept(garbage, found[-1].key if len(found) == PAGE else None)


def _told(kind: GarbageKind, items: Sequence[StoredObject]) -> tuple[Garbage, ...]:
    return tuple(Garbage(kind=kind, name=item.key, size=item.size, since=item.at) for item in items)


async def _staging(sweep: Sweep, items: Sequence[StoredObject]) -> list[StoredObject]:
    """Of uploads that are over; of unknown ones when they are old, for the row may be on its way."""
    async with sweep.open_unit() as unit:
        known = await repository.uploads(unit.session, [item.key.removeprefix(STAGING) for item in items])
    return [
        item
        for item in items
        if _is_leaving(known.get(item.key.removeprefix(STAGING)), item.at, sweep.before)
    ]


def _is_leaving(row: UploadRow | None, at: datetime, before: datetime) -> bool:
    return at < before if row is None else row.phase not in repository.UNFINISHED


async def _orphans(sweep: Sweep, items: Sequence[StoredObject]) -> list[StoredObject]:
    """Under final keys without a blob: of a promotion that was never committed, or came late."""
    digests = {item.key: form[1] for item in items if (form := _FINAL.match(item.key))}
    if not digests:
        return []
    async with sweep.open_unit() as unit:
        if not sweep.dry_run:
            await repository.hold_off_promotions(unit.session)
        known = await repository.known_keys(unit.session, digests)
        orphans = {key: digest for key, digest in digests.items() if key not in known}
        if not sweep.dry_run:
            await repository.remember(unit.session, orphans)
            for key, digest in orphans.items():
                unit.audit("blob.collect", f"blob:{digest}", None, None, f"the registry does not know {key}")
    return [item for item in items if item.key in orphans]


async def _multiparts(sweep: Sweep, after: str) -> Swept:
    """Multipart uploads that were begun in the store and never ended."""
    async with sweep.open_unit() as unit:
        store = unit.resources.blobs
    found, marker = await store.begun(_marker(after), BATCH)
    async with sweep.open_unit() as unit:
        known = await repository.uploads(unit.session, [item.key.removeprefix(STAGING) for item in found])
    leavings = []
    for item in found:
        row = known.get(item.key.removeprefix(STAGING))
        if row is not None and row.phase == UploadPhase.OPEN:
            # A second one under the same key: the store forgot the first for a while.
            leaving = row.store_id != item.store_id and item.at < sweep.before
        else:
            leaving = _is_leaving(row, item.at, sweep.before)
        if leaving:
            leavings.append(item)
            if not sweep.dry_run:
                await store.abort(item.key, item.store_id)
    garbage = tuple(
        Garbage(kind=GarbageKind.MULTIPART, name=item.key, size=None, since=item.at) for item in leavings
    )
    return Swept(garbage, None if marker is None else "\n".join(marker))


def _marker(after: str) -> Marker:
    key, _, store_id = after.partition("\n")
    return key, store_id


async def _delete_due(open_unit: OpenUnit) -> None:
    """Deletes the objects of keys that were given up, now or by a process that died over it."""
    while True:
        async with open_unit() as unit:
            due = await repository.due(unit.session, BATCH)
            store = unit.resources.blobs
        gone = await store.delete_all(list(due))
        async with open_unit() as unit:
            await repository.deleted(unit.session, gone)
        if len(due) < BATCH or not gone:
            return
