"""Versions whose files the registry fetches: from a bucket that is named, and what goes wrong there."""

import asyncio
from collections.abc import Iterator

import pytest
from mypy_boto3_s3 import S3Client

from registry.client import ApiError, versions
from registry.settings import Settings
from tests.registry.conftest import Registry
from tests.registry.mlflow.support import FILES, Mlflow, mlflow
from tests.registry.support import run_sql, verifying

DEADLINE_S = 30


@pytest.fixture
def models_bucket(s3: S3Client) -> Iterator[str]:
    """A bucket as a tracking server fills it."""
    name = "mlflow-models"
    s3.create_bucket(Bucket=name)
    for path, content in FILES.items():
        s3.put_object(Bucket=name, Key=f"1/run/artifacts/model/{path}", Body=content)
    yield name
    for item in s3.list_objects_v2(Bucket=name).get("Contents", ()):
        s3.delete_object(Bucket=name, Key=item["Key"])
    s3.delete_bucket(Bucket=name)


@pytest.fixture
def settings(settings: Settings, models_bucket: str) -> Settings:
    """The tracking server is named, and nobody listens there."""
    named = {"mlflow_s3_buckets": (models_bucket,), "mlflow_tracking_urls": ("http://127.0.0.1:9",)}
    return settings.model_copy(update=named)


async def settled(client: Mlflow, version: str) -> tuple[str, str]:
    """Status and message, as a client waits for them."""
    async with asyncio.timeout(DEADLINE_S):
        while (found := await client.get("iris", version))["status"] == "PENDING_REGISTRATION":
            await asyncio.sleep(0.1)
    return found["status"], found.get("status_message", "")


async def test_files_of_a_named_bucket_are_copied_in(
    registry: Registry, models_bucket: str, s3: S3Client
) -> None:
    source = f"s3://{models_bucket}/1/run/artifacts/model"
    async with mlflow(registry) as client, verifying(registry):
        await client.create_model()
        made = await client.version("iris", source, run_id="run")
        assert (made["status"], made["source"], made["run_id"]) == ("PENDING_REGISTRATION", source, "run")
        status, told = await settled(client, "1")
        assert (status, "not servable" in told) == ("READY", True)
        listed = await client.ask("GET", "/api/2.0/mlflow-artifacts/artifacts", {"path": "models/iris/1"})
        assert [file["path"] for file in listed["files"]] == ["MLmodel", "data"]

        await client.version("iris", f"s3://{models_bucket}/none")
        status, told = await settled(client, "2")
        assert (status, "there are no files at" in told) == ("FAILED_REGISTRATION", True)
        assert (
            await client.refused(
                "POST", "model-versions/create", {"name": "iris", "source": "s3://slipway/x"}
            )
        )[1] == "INVALID_PARAMETER_VALUE"
    # The bytes are the registry's own now.
    s3.delete_object(Bucket=models_bucket, Key="1/run/artifacts/model/MLmodel")
    assert await run_sql(registry, "SELECT count(*) FROM mlflow_artifacts") == [(0,)]


async def test_a_server_that_is_away_is_asked_again_and_then_told(registry: Registry) -> None:
    async with mlflow(registry) as client:
        await client.create_model()
        await client.version("iris", "mlflow-artifacts:/1/models/m-1/artifacts")
        async with asyncio.timeout(DEADLINE_S):
            while "connect" not in (told := (await client.get("iris", "1")).get("status_message", "")):
                await asyncio.sleep(0.1)
        assert told.startswith("draft: ")
        with pytest.raises(ApiError, match="iris@1 has no files yet"):
            await registry.client(versions.seal("iris", 1))
        await run_sql(registry, "UPDATE mlflow_versions SET attempt = 5, lease_until = now()")
        status, told = await settled(client, "1")
        assert status == "FAILED_REGISTRATION"
        assert "given up after 5 attempts; the last one: " in told
