"""Deletions: what is referred to stays, and the answer names the referrer."""

import pytest
from mypy_boto3_s3 import S3Client

from registry.client import ApiError, builds, datasets, models, uploads, versions
from registry.contract.builds import BuildCreate
from registry.contract.datasets import DatasetPatch
from registry.contract.tokens import Role
from registry.contract.uploads import UploadCreate
from registry.contract.versions import DatasetRef, Lineage, Metric, MetricsAppend, StageChange
from tests.registry.conftest import Registry
from tests.registry.support import (
    built,
    declared,
    digest_of,
    make_dataset,
    make_model,
    ready_version,
    run_sql,
    stored,
)


async def _delete(registry: Registry, number: int = 1) -> None:
    found = await registry.client(versions.get("animals", number))
    await registry.client(versions.delete("animals", number, found.revision))


async def _refusal(registry: Registry, number: int = 1) -> ApiError:
    with pytest.raises(ApiError) as refused:
        await _delete(registry, number)
    assert refused.value.status == 409
    return refused.value


async def _archive(registry: Registry, number: int = 1) -> None:
    await registry.client(versions.archive("animals", number, StageChange(reason="old")))


async def test_an_archived_version_goes_with_its_builds_and_its_number_is_not_given_again(
    registry: Registry,
) -> None:
    await ready_version(registry)
    await built(registry, "animals@1")
    dataset = await make_dataset(registry, "valset")
    metric = Metric(dataset=dataset.ref, name="top1", value=0.9, n=10)
    await registry.client(versions.append_metrics("animals", 1, MetricsAppend(metrics=(metric,))))
    ready = await _refusal(registry)
    assert "animals@1 is ready; draft, rejected, archived versions can be deleted" in ready.problem.detail
    assert "slipway version archive" in ready.problem.hint
    await _archive(registry)
    await _delete(registry)
    with pytest.raises(ApiError, match="animals has no version 1"):
        await registry.client(versions.get("animals", 1))
    for table in ("metrics", "engines", "builds", "steps"):
        assert await run_sql(registry, f"SELECT * FROM {table}") == []
    (entry,) = await run_sql(registry, "SELECT before->>'digest' FROM audit WHERE action = 'version.delete'")
    assert entry[0].startswith("sha256-")
    assert (await registry.client(versions.create("animals", declared()))).number == 2
    await _delete(registry, 2)


async def test_what_refers_to_a_version_is_named(registry: Registry) -> None:
    await ready_version(registry)
    await registry.client(
        versions.create("animals", declared().model_copy(update={"lineage": Lineage(parent_version=1)}))
    )
    build = await registry.client(builds.create(BuildCreate(version="animals@1")))
    await registry.client(models.set_alias("animals", "champion", 1))
    await _archive(registry)
    refused = await _refusal(registry)
    assert refused.kind == "referenced"
    assert refused.problem.reasons == (
        "alias champion of animals",
        "version animals@2 has it as its parent",
        f"build {build.id} is queued",
    )
    assert "alias champion of animals" in refused.problem.detail
    await registry.client(models.delete_alias("animals", "champion"))
    await _delete(registry, 2)
    await registry.client(builds.cancel(build.id))
    await _delete(registry)


async def test_a_referrer_that_only_the_database_knows_is_no_server_error(registry: Registry) -> None:
    await ready_version(registry)
    await _archive(registry)
    await run_sql(registry, "CREATE TABLE notes (version_id text REFERENCES versions (id))")
    await run_sql(registry, "INSERT INTO notes SELECT id FROM versions")
    assert "a row of notes" in (await _refusal(registry)).problem.detail


async def test_a_deletion_needs_the_revision_that_was_seen(registry: Registry) -> None:
    await make_model(registry)
    await registry.client(versions.create("animals", declared()))
    with pytest.raises(ApiError, match='not at "9" any more') as stale:
        await registry.client(versions.delete("animals", 1, 9))
    assert stale.value.status == 412
    viewer = await registry.as_role(Role.VIEWER)
    with pytest.raises(ApiError, match="this needs publisher"):
        await viewer(versions.delete("animals", 1, 1))


async def test_a_model_goes_after_its_versions_and_its_numbers_go_on(registry: Registry) -> None:
    await make_model(registry)
    await registry.client(versions.create("animals", declared()))
    model = await registry.client(models.get("animals"))
    with pytest.raises(ApiError) as refused:
        await registry.client(models.delete("animals", model.revision))
    assert refused.value.problem.reasons == ("version animals@1 is draft",)
    await _delete(registry)
    await registry.client(models.delete("animals", model.revision))
    with pytest.raises(ApiError, match="there is no model animals"):
        await registry.client(models.get("animals"))
    await make_model(registry)
    assert (await registry.client(models.get("animals"))).latest_version is None
    assert (await registry.client(versions.create("animals", declared()))).number == 2
    assert (await registry.client(models.get("animals"))).latest_version == 2


async def test_what_refers_to_a_data_set_is_named(registry: Registry) -> None:
    dataset = await make_dataset(registry, "valset")
    await ready_version(registry, lineage=Lineage(training_data=DatasetRef(name="valset", version=1)))
    metric = Metric(dataset=dataset.ref, name="top1", value=0.9, n=10)
    await registry.client(versions.append_metrics("animals", 1, MetricsAppend(metrics=(metric,))))
    with pytest.raises(ApiError) as refused:
        await registry.client(datasets.delete("valset", 1, dataset.revision))
    assert refused.value.kind == "referenced"
    assert refused.value.problem.reasons == (
        "metrics of version animals@1",
        "version animals@1 was trained on it",
    )
    await _archive(registry)
    await _delete(registry)
    kept = await registry.client(datasets.patch("valset", 1, DatasetPatch(retain_until=None), 1))
    with pytest.raises(ApiError, match='not at "7" any more'):
        await registry.client(datasets.delete("valset", 1, 7))
    await registry.client(datasets.delete("valset", 1, kept.revision))
    assert (await make_dataset(registry, "valset")).version == 2


async def test_a_blob_is_deleted_when_nothing_refers_to_it(registry: Registry, s3: S3Client) -> None:
    await ready_version(registry, files={"model.onnx": b"used"})
    with pytest.raises(ApiError, match="version animals@1") as refused:
        await registry.client(uploads.delete_blob(digest_of(b"used")))
    assert refused.value.kind == "referenced"
    secret = await stored(registry, b"a secret, by mistake")
    await registry.client(uploads.delete_blob(secret))
    with pytest.raises(ApiError, match="there is no blob"):
        await registry.client(uploads.blob(secret))
    promised = await stored(registry, b"promised")
    await registry.client(uploads.create(UploadCreate(digest=promised, size=8)))
    with pytest.raises(ApiError, match="an upload was told") as told:
        await registry.client(uploads.delete_blob(promised))
    assert told.value.status == 409


async def test_an_archived_version_is_restored_when_its_files_are_there(registry: Registry) -> None:
    await ready_version(registry)
    await _archive(registry)
    restored = await registry.client(versions.restore("animals", 1, StageChange(reason="again")))
    assert restored.stage == "ready"
    await registry.client(versions.create("animals", declared({"model.onnx": b"never sent"})))
    await _archive(registry, 2)
    with pytest.raises(ApiError, match=r"model\.onnx .*: it was never uploaded"):
        await registry.client(versions.restore("animals", 2, StageChange(reason="again")))
    with pytest.raises(ApiError, match="restore is not possible"):
        await registry.client(versions.restore("animals", 1, StageChange(reason="again")))
