"""Data sets: numbered by name, made of verified blobs."""

import asyncio

import pytest

from registry.client import ApiError, datasets
from registry.contract.datasets import DatasetCreate
from tests.registry.conftest import Registry
from tests.registry.support import entry, make_dataset, stored


def _body(shard: bytes, index: bytes = b"{}") -> DatasetCreate:
    return DatasetCreate(
        name="rows",
        kind="validation",
        form="raw",
        shards=(entry("rows.tar", shard),),
        index=entry("index.jsonl", index),
        rows=1,
    )


async def test_parallel_registrations_get_distinct_numbers(registry: Registry) -> None:
    for content in (b"shard", b"{}"):
        await stored(registry, content)
    made = await asyncio.gather(*(registry.client(datasets.create(_body(b"shard"))) for _ in range(10)))
    assert sorted(dataset.version for dataset in made) == list(range(1, 11))
    assert len({dataset.digest for dataset in made}) == 1
    assert await registry.client(datasets.get("rows", made[0].version)) == made[0]
    first = await registry.client(datasets.page(limit=6))
    rest = await registry.client(datasets.page(page_token=first.next_page_token, limit=6))
    assert [dataset.version for dataset in (*first.items, *rest.items)] == list(range(1, 11))


async def test_files_must_be_there(registry: Registry) -> None:
    await stored(registry, b"{}")
    with pytest.raises(ApiError, match=r"not uploaded and verified: rows\.tar") as refused:
        await registry.client(datasets.create(_body(b"shard")))
    assert refused.value.status == 409
    await make_dataset(registry, "other")
    with pytest.raises(ApiError, match="there is no data set rows@1"):
        await registry.client(datasets.get("rows", 1))


async def test_sizes_must_be_true(registry: Registry) -> None:
    for content in (b"shard", b"{}"):
        await stored(registry, content)
    body = _body(b"shard")
    wrong = body.model_copy(update={"index": body.index.model_copy(update={"size": 9})})
    with pytest.raises(ApiError, match=r"index\.jsonl has 2 bytes, 9 were declared"):
        await registry.client(datasets.create(wrong))
