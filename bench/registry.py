"""The registry beside an MLflow server: one server process each, on one PostgreSQL, in one run.

Both hold 100,000 versions of 1,000 models. Loads take turns, so that what else the machine does meets both;
a ratio is ours ÷ theirs of the median of the rounds.
"""

import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from urllib.parse import quote

import orjson
import psycopg

from bench import filled, mlflow_server, uploads
from bench.figures import table
from bench.http_load import Plan
from registry.client import models
from registry.contract.versions import FileEntry, Framework, Lineage, ModelCreate, VersionCreate
from slipway.client import Client
from slipway.credentials import FILE, load
from slipway.launcher import Launcher
from slipway.service import Options, plan
from slipway.stack import Stack, StackAddresses
from slipway.up import migrate

CLIENTS = 8
PAGE = 25
BYTES = 1 << 20


@dataclass(frozen=True)
class Size:
    """Of one measurement. `seconds`: of one load; `logged`: models with bytes, each of them some seconds of
    an MLflow client."""

    versions: int = filled.VERSIONS
    models: int = filled.MODELS
    rounds: int = 3
    seconds: float = 5.0
    logged: int = 24
    upload: int = uploads.SIZE


@dataclass(frozen=True)
class Sides:
    """Where both answer."""

    addresses: StackAddresses
    home: Path
    port: int
    token: str
    mlflow_port: int
    size: Size


@contextmanager
def _timed_part(what: str) -> Iterator[None]:
    """Told as it goes: the whole takes minutes."""
    began = time.perf_counter()
    yield
    print(f"{what}: {time.perf_counter() - began:.0f} s", file=sys.stderr)


@contextmanager
def both(home: Path, size: Size) -> Iterator[Sides]:
    """The stack, our server with its verify worker, and MLflow's, both filled."""
    stack = Stack(home / "data")
    with stack.running() as addresses:
        migrate(addresses)
        with (
            _timed_part("filled ours"),
            psycopg.connect(addresses.database_url, autocommit=True) as connection,
        ):
            filled.fill(connection, size.versions, size.models, filled.CONTRACT.model_dump_json())
        with _timed_part("made MLflow's tables"):
            mlflow_server.create_database(addresses, home)
        with _timed_part("filled MLflow's"):
            mlflow_server.fill(addresses, size.versions, size.models)
        mlflow_port = mlflow_server.free_port()
        planned = plan(Options(home=home, port=0, nodes=0, build_workers=0), addresses)
        launcher = Launcher(
            [*planned.children, mlflow_server.child(addresses, mlflow_port)],
            log_dir=home / "logs",
            environment={**os.environ, **planned.environment},
            tend=stack.tend,
            announce=lambda _: None,
        )
        with launcher:
            with _timed_part("started both servers"):
                launcher.start_all()
            found = load(home / FILE.name)
            yield Sides(addresses, home, int(found.url.rpartition(":")[2]), found.token, mlflow_port, size)


def _loaded(asked: Plan) -> dict[str, float]:
    done = subprocess.run(
        [sys.executable, "-m", "bench.http_load"],
        input=orjson.dumps(asdict(asked)),
        capture_output=True,
        check=True,
    )
    tally: dict[str, float] = orjson.loads(done.stdout)
    if tally["failed"]:
        raise RuntimeError(f"{tally['failed']} requests failed: {tally['sample']}")
    return tally


def _in_turn(
    rounds: int, ours: Callable[[int], Plan], theirs: Callable[[int], Plan]
) -> list[dict[str, float]]:
    """Medians of both over the rounds; a first short one of each warms up."""
    tallies: list[list[dict[str, float]]] = [[], []]
    for turn in range(rounds + 1):
        for side, make in zip(tallies, (ours, theirs), strict=True):
            asked = make(turn * 1_000_000)
            tally = _loaded(asked if turn else Plan(**{**asdict(asked), "seconds": 1.0}))
            if turn:
                side.append(tally)
    names = ("per_second", "p50_ms", "p95_ms")
    return [{name: statistics.median(tally[name] for tally in side) for name in names} for side in tallies]


def _our_headers(sides: Sides) -> dict[str, str]:
    """As our clients send them, the key of each write included."""
    return {
        "authorization": f"Bearer {sides.token}",
        "content-type": "application/json",
        "idempotency-key": "bench-{n}",
    }


def _create(sides: Sides) -> list[dict[str, float]]:
    """A version-create against a version-create, with two tags, each client at a model of its own that has
    as many versions as all others."""
    body = VersionCreate(
        framework=Framework.ONNX,
        files=(FileEntry(path="model.onnx", digest="sha256-" + "0" * 64, size=1),),
        contract=filled.CONTRACT,
        lineage=Lineage(commit="4f1e2d", training_run="run-1"),
        tags={"team": "bench", "n": "{n}"},
    )
    theirs = {
        "name": "m-000{c}",
        "source": "s3://bench/model",
        "tags": [{"key": "team", "value": "bench"}, {"key": "n", "value": "{n}"}],
    }
    ours_at = ("POST", "/v1/models/m-000{c}/versions", body.model_dump_json())
    theirs_at = ("POST", "/api/2.0/mlflow/model-versions/create", orjson.dumps(theirs).decode())
    json = {"content-type": "application/json"}
    return _in_turn(
        sides.size.rounds,
        lambda first: Plan(sides.port, CLIENTS, sides.size.seconds, (ours_at,), _our_headers(sides), first),
        lambda first: Plan(sides.mlflow_port, CLIENTS, sides.size.seconds, (theirs_at,), json, first),
    )


def _search(sides: Sides) -> list[dict[str, float]]:
    """By tag and metric against by tag: MLflow's registry can't search versions by a metric at all."""
    ours = [
        (
            "GET",
            f"/v1/versions?limit={PAGE}&filter="
            + quote(f"tags.team='nlp' and metrics.top1@valset>{threshold / 100}"),
            "",
        )
        for threshold in range(5, 100, 5)
    ]
    theirs = (
        "GET",
        f"/api/2.0/mlflow/model-versions/search?max_results={PAGE}&filter=" + quote("tags.`team` = 'nlp'"),
        "",
    )
    return _in_turn(
        sides.size.rounds,
        lambda first: Plan(sides.port, CLIENTS, sides.size.seconds, tuple(ours), _our_headers(sides), first),
        lambda first: Plan(sides.mlflow_port, CLIENTS, sides.size.seconds, (theirs,), {}, first),
    )


def _register_with_bytes(sides: Sides) -> list[float]:
    """Models a second, by the clients that people use: ours verified and ready, theirs logged."""
    with Client(f"http://127.0.0.1:{sides.port}", sides.token) as client:
        for at in range(CLIENTS):
            client.call(models.create(ModelCreate(name=f"bytes-{at}")))
    script = str(Path(__file__).with_name("log_models.py"))
    ours = [sys.executable, "-m", "bench.register_models"]
    theirs = [mlflow_server.python(), "-P", script]
    at_ours = {"SLIPWAY_URL": f"http://127.0.0.1:{sides.port}", "SLIPWAY_TOKEN": sides.token}
    at_theirs = mlflow_server.environment(sides.addresses, sides.mlflow_port)
    return [
        statistics.median(_timed(sides, command, env) for _ in range(sides.size.rounds))
        for command, env in ((ours, at_ours), (theirs, at_theirs))
    ]


def _timed(sides: Sides, command: list[str], environment: Mapping[str, str]) -> float:
    with tempfile.TemporaryDirectory(dir=sides.home) as folder:
        done = subprocess.run(
            [*command, str(sides.size.logged), str(BYTES), folder],
            env={**os.environ, **environment},
            capture_output=True,
            text=True,
            check=False,
        )
    if done.returncode:
        raise RuntimeError(f"{command[-1]} failed:\n{done.stderr[-2000:]}")
    return sides.size.logged / float(done.stdout.split()[-1])


def run(output: str, size: Size = Size()) -> dict[str, object]:
    """How many times faster than MLflow's server, and the two figures of `bench.uploads`."""
    with tempfile.TemporaryDirectory(prefix="slipway-bench-") as folder:
        home = Path(folder)
        home.chmod(0o711)
        with both(home / "service", size) as sides:
            with _timed_part("creates"):
                created = _create(sides)
            with _timed_part("searches"):
                searched = _search(sides)
            with _timed_part("registered with bytes"):
                logged = _register_with_bytes(sides)
    with _timed_part("uploads"):
        sent = uploads.measure(size.upload)
    figures: dict[str, object] = {
        "register_ratio": created[0]["per_second"] / created[1]["per_second"],
        "search_ratio": searched[0]["per_second"] / searched[1]["per_second"],
        "register_with_bytes_ratio": logged[0] / logged[1],
        "search_p95_ms": searched[0]["p95_ms"],
        **sent,
        "versions": size.versions,
        "clients": CLIENTS,
        "creates": {"ours": created[0], "mlflow": created[1]},
        "searches": {"ours": searched[0], "mlflow": searched[1]},
        "with_bytes_per_second": {"ours": logged[0], "mlflow": logged[1]},
    }
    if output == "table":
        table(figures)
    return figures
