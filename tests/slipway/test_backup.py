"""Backup and restore by command line: an identical registry, on a higher timeline, that nodes follow."""

import asyncio
import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import httpx
import psycopg
import pytest
from mypy_boto3_s3 import S3Client

from registry.client import AsyncClient, deployments
from registry.contract.deployments import Deployment
from registry.contract.nodes import Assignment, DeploymentReport
from registry.contract.routes import Fence
from slipway.cli.app import run
from slipway.stack import StackAddresses
from tests import patience
from tests.registry import support
from tests.registry.conftest import ADMIN, Registry, serving, settings
from tests.registry.nodes.agents import Agent
from tests.registry.releases.fleet import fleet
from tests.registry.releases.stage import REF, released, stage

__all__ = ["settings"]

SEEN = (
    "/v1/whoami",
    "/v1/models",
    "/v1/models/animals/versions",
    "/v1/builds",
    "/v1/engines",
    "/v1/deployments",
    f"/v1/deployments/{REF}/routes",
    f"/v1/deployments/{REF}/releases/1",
    "/v1/tokens",
)


@pytest.fixture
def emptied(addresses: StackAddresses, empty_database_url: str, s3: S3Client) -> Iterator[StackAddresses]:
    """Where it is restored to: a database without a table, and a bucket that does not exist yet."""
    made = replace(addresses, database_url=empty_database_url, bucket="restored")
    yield made
    if "restored" in [each["Name"] for each in s3.list_buckets()["Buckets"]]:
        for item in s3.list_objects_v2(Bucket="restored").get("Contents", ()):
            s3.delete_object(Bucket="restored", Key=item["Key"])
        s3.delete_bucket(Bucket="restored")


async def _slipway(monkeypatch: pytest.MonkeyPatch, at: StackAddresses, *arguments: str) -> int:
    """The exit code of a command line that finds these servers in its environment."""
    for name, value in at.environment().items():
        monkeypatch.setenv(name, value)
    return await asyncio.to_thread(run, [*arguments, "-o", "json"])


async def _everything(url: str) -> dict[str, Any]:
    headers = {"authorization": f"Bearer {ADMIN}"}
    async with patience.async_client(base_url=url, headers=headers) as http:
        found = {path: (await http.get(path)).json() for path in SEEN}
    for token in found["/v1/tokens"]["items"]:
        del token["last_used_at"]
    return found


def _scalar(url: str, query: str) -> Any:
    with psycopg.connect(url) as connection:
        row = connection.execute(query.encode()).fetchone()
        assert row is not None
        return row[0]


async def test_a_registry_comes_back(
    settings: Any,
    addresses: StackAddresses,
    emptied: StackAddresses,
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    capfd: pytest.CaptureFixture[str],
) -> None:
    place = tmp_path / "backup"
    async with serving(settings) as url:
        registry = Registry(url, settings, AsyncClient(url, ADMIN), [])
        await support.ready_version(registry)
        await support.built(registry, "animals@1")
        await stage(registry)
        async with fleet(registry, size=1) as nodes:
            await released(registry, "animals@1")
            agent = nodes[0].agent
            node = Agent.__new__(Agent)
            node.__dict__.update(agent.__dict__)
        assert await _slipway(monkeypatch, addresses, "backup", str(place)) == 0
        made = json.loads(capfd.readouterr().out)
        stamps = {path: path.stat().st_mtime_ns for path in (place / "blobs").iterdir()}
        assert len(stamps) == len(made["blobs"]) == 2
        assert await _slipway(monkeypatch, addresses, "backup", str(place)) == 0
        assert {path: path.stat().st_mtime_ns for path in (place / "blobs").iterdir()} == stamps
        assert len(list(place.glob("*.dump"))) == 1, "an older dump goes when the new one is whole"
        before = await _everything(url)
        deployment = await registry.client(deployments.get(REF))
        for each in [registry.client, *registry.clients]:
            await each.close()

    assert await _slipway(monkeypatch, addresses, "restore", str(place)) == 1
    assert "an empty one" in capfd.readouterr().err
    assert await _slipway(monkeypatch, emptied, "restore", str(place)) == 0
    assert _scalar(emptied.database_url, "SELECT timeline FROM registry") > 1
    where = settings.model_copy(
        update={
            "database_url": type(settings.database_url)(emptied.database_url),
            "s3_bucket": emptied.bucket,
        }
    )
    async with serving(where) as url:
        assert await _everything(url) == before
        await _bytes_are_there(url)
        await _node_is_caught(url, node, deployment)


async def _bytes_are_there(url: str) -> None:
    digest = support.digest_of(support.FILES["model.onnx"])
    headers = {"authorization": f"Bearer {ADMIN}"}
    async with patience.async_client(headers=headers, follow_redirects=False) as http:
        to = (await http.get(f"{url}/v1/blobs/{digest}")).headers["location"]
    async with patience.async_client() as store:
        assert (await store.get(to)).content == support.FILES["model.onnx"]


async def _node_is_caught(url: str, agent: Agent, deployment: Deployment) -> None:
    """It follows a generation of the lost time; the registry appends one above it that the node must take."""
    assert deployment.requested is not None
    lost = Fence(
        registry_id=deployment.requested.fence.registry_id,
        timeline=deployment.requested.fence.timeline,
        generation=deployment.requested.fence.generation + 5,
    )
    headers = {"authorization": f"Bearer {agent.token}"}
    at = f"{url}/v1/nodes/{agent.id}/"
    agent.http = httpx.AsyncClient(base_url=at, headers=headers, timeout=20, trust_env=False)
    follows = DeploymentReport(deployment=REF, fence=lost, switched=True, drained=True, ready=True)
    async with asyncio.timeout(60):
        while True:
            await agent.report(deployments=(follows,))
            told = Assignment.model_validate_json((await agent.poll()).content).fragments[0]
            if told.fence.generation > lost.generation:
                break
            await asyncio.sleep(0.1)
    await agent.http.aclose()
    assert told.fence.supersedes(lost)
    assert told.fence.timeline > lost.timeline
    assert [arm.arm for arm in told.arms] == [arm.arm for arm in deployment.requested.arms]


async def test_what_is_damaged_is_refused(
    settings: Any,
    addresses: StackAddresses,
    empty_database_url: str,
    s3: S3Client,
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    capfd: pytest.CaptureFixture[str],
) -> None:
    place = tmp_path / "backup"
    async with serving(settings) as url:
        registry = Registry(url, settings, AsyncClient(url, ADMIN), [])
        digest = await support.stored(registry, b"some bytes")
        await registry.client.close()
    assert await _slipway(monkeypatch, addresses, "backup", str(place)) == 0
    target = replace(addresses, database_url=empty_database_url)

    (place / "blobs" / digest).write_bytes(b"some bytez")
    assert await _slipway(monkeypatch, target, "restore", str(place)) == 1
    assert digest in capfd.readouterr().err
    assert _scalar(empty_database_url, "SELECT count(*) FROM pg_tables WHERE schemaname = 'public'") == 0

    (key,) = [item["Key"] for item in s3.list_objects_v2(Bucket=addresses.bucket)["Contents"]]
    (place / "blobs" / digest).unlink()
    s3.put_object(Bucket=addresses.bucket, Key=key, Body=b"some bytez")
    assert await _slipway(monkeypatch, addresses, "backup", str(place)) == 1
    assert "damaged" in capfd.readouterr().err
    s3.delete_object(Bucket=addresses.bucket, Key=key)
    assert await _slipway(monkeypatch, addresses, "backup", str(place)) == 1
    assert "lacks" in capfd.readouterr().err
    (place / "backup.json").unlink()
    assert await _slipway(monkeypatch, target, "restore", str(place)) == 1
    assert "no whole backup" in capfd.readouterr().err
