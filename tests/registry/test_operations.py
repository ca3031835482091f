"""What those who run a registry look at, after a whole life was played on it: logs, metrics, health."""

import asyncio
import json
import re
from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

import pytest

from slipway.stack import StackAddresses
from tests import patience
from tests.chaos.server import ADMIN, Server, environment
from tests.registry import fuzzing
from tests.upgrade import tour
from tests.upgrade.record import Stage
from tests.upgrade.wire import Exchange

_SAMPLE = re.compile(r'^([a-z_:]+)(?:\{((?:[a-z_]+="(?:[^"\\]|\\.)*",?)*)\})? (-?[0-9.e+-]+|NaN|\+Inf)$')
_LABEL = re.compile(r'([a-z_]+)="((?:[^"\\]|\\.)*)"')


@dataclass(frozen=True)
class Lived:
    """A registry after `tour.play` and a fuzzer: what was said, its page of metrics (from before the fuzzer),
    what the fuzzer found, and what was logged."""

    exchanges: list[Exchange]
    metrics: str
    faults: dict[str, BaseException]
    text: str

    @property
    def lines(self) -> list[dict[str, object]]:
        return [json.loads(line) for line in self.text.splitlines()]


@pytest.fixture
async def lived(addresses: StackAddresses, tmp_path: Path) -> AsyncIterator[Lived]:
    server = Server(environment(addresses.environment()), tmp_path / "server.log").start()
    try:
        stage = Stage(server.url, addresses.database_url)
        await tour.play(stage)
        await stage.close()
        async with patience.async_client(base_url=server.url) as http:
            await http.get(
                "/v1/whoami", headers={"authorization": f"Bearer {ADMIN}", "x-request-id": "mine-1"}
            )
            await http.get("/v1/nothing/at/all?token=slp_in_a_query_where_it_does_not_belong")
            metrics = await http.get("/metrics")
        faults = await asyncio.to_thread(fuzzing.faults, server.url, stage)
    finally:
        server.stop()
    yield Lived(stage.recorder.exchanges, metrics.text, faults, server.log.read_text())


def _secrets(lived: Lived, addresses: StackAddresses) -> set[str]:
    """All that must be in no log: tokens, signatures of presigned URLs, passwords, keys."""
    said = json.dumps([each.__dict__ for each in lived.exchanges])
    urls = re.findall(r"https?://[^\"\\ ]+X-Amz-[^\"\\ ]+", said)
    signatures = {value for url in urls for value in parse_qs(urlsplit(url).query)["X-Amz-Signature"]}
    passwords = {urlsplit(url).password or "" for url in (addresses.database_url, addresses.redis_url)}
    found = {*re.findall(r"slp_[A-Za-z0-9_-]{20,}", said), *signatures, *passwords, ADMIN}
    assert len(found) > 10, "the tour makes many secrets"
    return {*found, addresses.s3_secret_key, "slp_in_a_query_where_it_does_not_belong"}


async def test_operations(lived: Lived, addresses: StackAddresses) -> None:
    """One life for all of it: it takes longer than all that is asked about it."""
    assert lived.faults == {}, "\n\n".join(f"{label}: {each}" for label, each in lived.faults.items())
    _check_secrets(lived, addresses)
    _check_lines(lived)
    _check_metrics(lived)


def _check_secrets(lived: Lived, addresses: StackAddresses) -> None:
    shown = [secret for secret in _secrets(lived, addresses) if secret in lived.text]
    assert shown == []


def _check_lines(lived: Lived) -> None:
    """One JSON line per request, which says who asked what, how it ended and how long it took."""
    access = [line for line in lived.lines if line["logger"] == "registry.access_log"]
    for line in access:
        assert {
            "at",
            "level",
            "request_id",
            "method",
            "route",
            "status",
            "duration_ms",
            "principal",
        } <= line.keys()
        assert not re.search(r"[0-9a-f]{32}|animals", str(line["route"])), "a template, not a path"
    ids = [line["request_id"] for line in access]
    assert len(ids) == len(set(ids))
    (mine,) = [line for line in access if line["request_id"] == "mine-1"]
    assert (mine["route"], mine["status"], mine["principal"]) == ("/v1/whoami", 200, "admin")
    people = [
        each for each in lived.exchanges if each.path.startswith("/v1/") and "/nodes/nod_" not in each.path
    ]
    logged = [line for line in access if str(line["route"]).startswith("/v1/")]
    assert len(logged) >= len(people)
    failed = [line for line in lived.lines if line["level"] in ("error", "critical")]
    assert failed == []


def _samples(text: str) -> dict[tuple[str, frozenset[tuple[str, str]]], float]:
    """Every sample; raises where the text is not of the format."""
    found = {}
    for line in text.splitlines():
        if not line.startswith("#"):
            parsed = _SAMPLE.match(line)
            assert parsed, line
            key = (parsed[1], frozenset(_LABEL.findall(parsed[2] or "")))
            assert key not in found, f"twice: {line}"
            found[key] = float(parsed[3])
    return found


def _check_metrics(lived: Lived) -> None:
    samples = _samples(lived.metrics)

    def value(name: str, **labels: str) -> float:
        return samples[name, frozenset(labels.items())]

    creates = [
        each
        for each in lived.exchanges
        if (each.method, each.path) == ("POST", "/v1/models/animals/versions")
    ]
    at = {"method": "POST", "route": "/v1/models/{model}/versions"}
    assert value("slipway_requests_total", **at, status="201") == len(creates)
    assert value("slipway_request_seconds_count", **at) == len(creates)
    assert value("slipway_request_seconds_bucket", **at, le="+Inf") == len(creates)
    assert value("slipway_requests_total", method="GET", route="unmatched", status="404") == 1
    assert value("slipway_requests_total", method="POST", route="/v1/sessions", status="201") == 1
    assert value("slipway_database_up") == value("slipway_listening") == 1
    assert value("slipway_nodes", state="ready") + value("slipway_nodes", state="preparing") == 1
    assert value("slipway_releases", phase="running") == 0
    assert value("slipway_pool_connections") == 20
    assert value("process_resident_memory_bytes") > 1e7
    assert ("slipway_outbox", frozenset()) in samples
    labels = {label for _, each in samples for label, _ in each}
    assert labels <= {"method", "route", "status", "le", "kind", "phase", "state", "deployment"}
    for line in lived.metrics.splitlines():
        if line.startswith("# TYPE"):
            assert lived.metrics.count(line + "\n") == 1, "one head per family"
