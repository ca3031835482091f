"""`slipway gc`: what would go, then that it went; and a data set that is kept is told with its referrers."""

from datetime import UTC, datetime, timedelta

import orjson

from registry.client import datasets
from registry.contract.datasets import DatasetPatch
from registry.contract.versions import DatasetRef, Lineage
from tests.registry.command import slipway
from tests.registry.conftest import Registry
from tests.registry.support import make_dataset, ready_version, run_sql, stored


async def test_a_dry_run_tells_what_a_run_deletes(registry: Registry) -> None:
    digest = await stored(registry, b"nobody wants this")
    await make_dataset(registry, "trainset", "training")
    await ready_version(registry, lineage=Lineage(training_data=DatasetRef(name="trainset", version=1)))
    past = datetime.now(UTC) - timedelta(days=1)
    await registry.client(datasets.patch("trainset", 1, DatasetPatch(retain_until=past), 1))
    await run_sql(registry, "UPDATE blobs SET verified_at = verified_at - interval '2 days'")
    listed, told = await slipway(registry, "gc", "--dry-run", "--grace", "1d", "-o", "json")
    assert [(item["kind"], item["name"]) for item in orjson.loads(listed)] == [("blob", digest)]
    assert "would delete: 1 blob (17 bytes)" in told
    assert "data set trainset@1 is past its retention and stays: version animals@1 was trained on it" in told
    _, told = await slipway(registry, "gc", "--grace", "1d")
    assert "deleted: 1 blob (17 bytes)" in told
    assert await run_sql(registry, "SELECT 1 FROM blobs WHERE digest = %s", digest) == []
