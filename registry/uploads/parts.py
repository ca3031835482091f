"""Which parts of an upload have arrived, by what the store says."""

import asyncio
from collections.abc import Iterable
from dataclasses import dataclass

from registry.blobs.store import ArrivedPart, BlobStore
from registry.contract.uploads import Part
from registry.lifecycle.parts import cuts
from registry.tables.uploads import UploadRow


@dataclass(frozen=True)
class Arrival:
    """`parts` by number, of the right size; `wrong`: sizes of those that came with another one only.

    `whole`: the store has put the parts together already, and the size of that object.
    `forgotten`: the store knows neither the upload nor an object.
    """

    parts: dict[int, ArrivedPart]
    wrong: dict[int, int]
    whole: int | None = None
    forgotten: bool = False


async def arrival(store: BlobStore, row: UploadRow) -> Arrival:
    """Asks the store. Raises Unavailable."""
    if row.in_one_piece:
        return Arrival({}, {}, await store.size(row.staging_key))
    found = await store.arrived(row.staging_key, row.store_id)
    if found is None:
        whole = await store.size(row.staging_key)
        return Arrival({}, {}, whole, forgotten=whole is None)
    return sort(found, {number: size for number, _, size in cuts(row.size, row.part_size)})


def sort(found: Iterable[ArrivedPart], sizes: dict[int, int]) -> Arrival:
    """Of several transmissions of a part the newest of the right size counts."""
    good: dict[int, ArrivedPart] = {}
    wrong: dict[int, int] = {}
    for part in sorted(found, key=lambda part: part.at):
        if sizes.get(part.number) == part.size:
            good[part.number] = part
        elif part.number in sizes:
            wrong[part.number] = part.size
    return Arrival(good, {number: size for number, size in wrong.items() if number not in good})


async def listed(store: BlobStore, row: UploadRow, arrived: Arrival) -> tuple[Part, ...]:
    """All parts, with URLs for those that have not arrived. Signing many of them takes a while: a thread's
    work, so that other requests go on."""
    return await asyncio.to_thread(_listed, store, row, arrived)


def _listed(store: BlobStore, row: UploadRow, arrived: Arrival) -> tuple[Part, ...]:
    return tuple(
        Part(
            number=number,
            offset=offset,
            size=size,
            url=None if arrived.whole == row.size or number in arrived.parts else _url(store, row, number),
        )
        for number, offset, size in cuts(row.size, row.part_size)
    )


def _url(store: BlobStore, row: UploadRow, number: int) -> str:
    if row.in_one_piece:
        return store.whole_url(row.staging_key)
    return store.part_url(row.staging_key, row.store_id, number)
