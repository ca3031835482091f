"""Prometheus text of one process: its requests, its pools, and what the tables say of the whole registry."""

import asyncio
import logging
import time
from bisect import bisect_left
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Annotated

import psutil
from fastapi import APIRouter, Depends, Request, Response
from sqlalchemy.exc import SQLAlchemyError
from sqlalchemy.pool import QueuePool

from registry.edge.resources import Resources
from registry.gauges import Sample, read

log = logging.getLogger(__name__)

router = APIRouter(tags=["health"])

MEDIA_TYPE = "text/plain; version=0.0.4; charset=utf-8"
BUCKETS_S = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0)
METHODS = frozenset({"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"})
LIMIT_S = 2.0
KEPT_S = 2.0


@dataclass(slots=True)
class _Latency:
    """Requests by bucket (the last: longer than all), and their seconds."""

    counts: list[int] = field(default_factory=lambda: [0] * (len(BUCKETS_S) + 1))
    seconds: float = 0.0


class Requests:
    """What this process answered, by method, route template and status."""

    def __init__(self) -> None:
        self._answered: dict[tuple[str, str, int], int] = {}
        self._latency: dict[tuple[str, str], _Latency] = {}

    def add(self, method: str, route: str, status: int, seconds: float) -> None:
        method = method if method in METHODS else "other"
        key = (method, route, status)
        self._answered[key] = self._answered.get(key, 0) + 1
        latency = self._latency.setdefault((method, route), _Latency())
        latency.counts[bisect_left(BUCKETS_S, seconds)] += 1
        latency.seconds += seconds

    def text(self) -> Iterator[str]:
        yield from _head("slipway_requests_total", "counter", "Requests answered, by route template.")
        for (method, route, status), n in sorted(self._answered.items()):
            yield _line("slipway_requests_total", {"method": method, "route": route, "status": status}, n)
        name = "slipway_request_seconds"
        yield from _head(name, "histogram", "From the first byte of a request to the last of its answer.")
        for (method, route), latency in sorted(self._latency.items()):
            labels = {"method": method, "route": route}
            total = 0
            for edge, n in zip((*BUCKETS_S, "+Inf"), latency.counts, strict=True):
                total += n
                yield _line(f"{name}_bucket", {**labels, "le": edge}, total)
            yield _line(f"{name}_sum", labels, latency.seconds)
            yield _line(f"{name}_count", labels, total)


class Exposition:
    """`text` is the whole page. The tables are asked at most once in two seconds, however many ask here."""

    def __init__(self, resources: Resources, requests: Requests) -> None:
        self._resources = resources
        self._requests = requests
        self._process = psutil.Process()
        self._reading: asyncio.Task[list[Sample]] | None = None
        self._read_at = 0.0

    async def text(self) -> str:
        """Without the database it lacks what the tables say, and says so by `slipway_database_up 0`."""
        samples = await self._samples()
        up = _own(
            "slipway_database_up", "Whether the tables could be read for this page.", samples is not None
        )
        lines = [*self._requests.text(), *self._own(), *_families((up, *(samples or ())))]
        return "\n".join(lines) + "\n"

    def _own(self) -> Iterator[str]:
        pool = self._resources.database.engine.pool
        assert isinstance(pool, QueuePool)
        process = self._process
        with process.oneshot():
            times, memory = process.cpu_times(), process.memory_info()
        yield from _families(
            (
                _own("slipway_pool_connections", "Database connections that may be open.", pool.size()),
                _own("slipway_pool_in_use", "Database connections in use now.", pool.checkedout()),
                _own(
                    "slipway_listening",
                    "Whether notices of other processes arrive.",
                    self._resources.listener.state == "ok",
                ),
                _own("process_resident_memory_bytes", "Resident memory.", memory.rss),
                _own("process_start_time_seconds", "Start, in Unix time.", process.create_time()),
                Sample(
                    "process_cpu_seconds_total",
                    "counter",
                    "CPU time, user and system.",
                    {},
                    times.user + times.system,
                ),
            )
        )

    async def _samples(self) -> list[Sample] | None:
        now = time.monotonic()
        if self._reading is None or (self._reading.done() and now - self._read_at > KEPT_S):
            self._read_at = now
            self._reading = asyncio.create_task(
                read(self._resources.database, self._resources.settings.node_stale_s)
            )
        done, _ = await asyncio.wait({self._reading}, timeout=LIMIT_S)
        if not done:
            return None
        try:
            return self._reading.result()
        except (SQLAlchemyError, OSError) as error:
            log.warning("the tables could not be read for /metrics: %s", error)
            return None


def _own(name: str, text: str, value: float) -> Sample:
    return Sample(name, "gauge", text, {}, value if not isinstance(value, bool) else int(value))


def _families(samples: Iterable[Sample]) -> Iterator[str]:
    """Samples of one name stand together under one head."""
    families: dict[str, list[Sample]] = {}
    for sample in samples:
        families.setdefault(sample.name, []).append(sample)
    for name, members in families.items():
        yield from _head(name, members[0].kind, members[0].text)
        for sample in members:
            yield _line(name, sample.labels, sample.value)


def _head(name: str, kind: str, text: str) -> Iterator[str]:
    yield f"# HELP {name} {text}"
    yield f"# TYPE {name} {kind}"


def _line(name: str, labels: Mapping[str, object], value: float) -> str:
    inner = ",".join(f'{key}="{_escaped(str(each))}"' for key, each in labels.items())
    number = str(value) if isinstance(value, int) else repr(float(value))
    return f"{name}{{{inner}}} {number}" if inner else f"{name} {number}"


def _escaped(text: str) -> str:
    return text.replace("\\", r"\\").replace('"', r"\"").replace("\n", r"\n")


def _exposition(request: Request) -> Exposition:
    exposition: Exposition = request.app.state.exposition
    return exposition


@router.get("/metrics", response_class=Response, responses={200: {"content": {"text/plain": {}}}})
async def metrics(exposition: Annotated[Exposition, Depends(_exposition)]) -> Response:
    """Prometheus text. Needs no token: it names routes, phases and deployments, no person and no secret."""
    return Response(await exposition.text(), media_type=MEDIA_TYPE)
