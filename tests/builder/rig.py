"""A real registry in a thread of its own, real workers as processes, and what to register with them."""

import contextlib
import os
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import psycopg
import uvicorn

from registry.app import build as build_app
from registry.client import ApiError, Client, builds, datasets, models, versions
from registry.client.transfer import upload
from registry.contract.builds import Build, BuildCreate, BuildPhase
from registry.contract.datasets import Dataset, DatasetCreate
from registry.contract.recipes import Recipe
from registry.contract.versions import (
    FileEntry,
    Framework,
    ModelCreate,
    Version,
    VersionContract,
    VersionCreate,
    VersionStage,
)
from registry.settings import Settings
from slipway.stack import StackAddresses
from tests.builder import made

ADMIN = "test-admin-token"
BUILDER = "test-builder-token"
DEADLINE_S = 120.0


def until(what: str, found: Callable[[], bool], deadline_s: float = DEADLINE_S) -> None:
    end = time.monotonic() + deadline_s
    while not found():
        if time.monotonic() > end:
            raise AssertionError(f"not within {deadline_s:g} s: {what}")
        time.sleep(0.05)


def settings(addresses: StackAddresses) -> Settings:
    return Settings(
        database_url=addresses.database_url,
        redis_url=addresses.redis_url,
        s3_endpoint_url=addresses.s3_endpoint_url,
        s3_access_key=addresses.s3_access_key,
        s3_secret_key=addresses.s3_secret_key,
        s3_bucket=addresses.bucket,
        admin_token=ADMIN,
        builder_token=BUILDER,
        sweep_every_s=0.5,
        republish_after_s=2,
    )


class RegistryThread:
    """A registry that a test can stop and start again at the same address."""

    def __init__(self, asked: Settings) -> None:
        self._settings = asked
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            self._port = int(probe.getsockname()[1])
        self.url = f"http://127.0.0.1:{self._port}"

    def start(self) -> None:
        config = uvicorn.Config(
            build_app(self._settings),
            host="127.0.0.1",
            port=self._port,
            log_config=None,
            lifespan="on",
            timeout_graceful_shutdown=2,
        )
        self._server = uvicorn.Server(config)
        self._thread = threading.Thread(target=self._server.run, name="registry")
        self._thread.start()
        until("registry started", lambda: self._server.started or not self._thread.is_alive())
        assert self._thread.is_alive(), "the registry did not start"

    def stop(self) -> None:
        self._server.should_exit = True
        self._thread.join(30)


@dataclass
class Rig:
    registry: RegistryThread
    addresses: StackAddresses
    home: Path
    workers: list[subprocess.Popen[bytes]] = field(default_factory=list)

    @property
    def client(self) -> Client:
        return Client(self.registry.url, ADMIN)

    @property
    def builder(self) -> Client:
        return Client(self.registry.url, BUILDER)

    def work(
        self,
        queues: str,
        name: str = "",
        more: Mapping[str, str] | None = None,
        before: Sequence[str] = (),
    ) -> subprocess.Popen[bytes]:
        """Starts a worker in a process group of its own, with `more` in its environment and the words
        `before` its command; its log is `worker-<queues><name>.log`."""
        environment = {
            "PATH": os.environ["PATH"],
            "PYTHONWARNINGS": "error",
            "SLIPWAY_REGISTRY_URL": self.registry.url,
            "SLIPWAY_TOKEN": BUILDER,
            "SLIPWAY_WORK_DIR": str(self.home / f"work{name}"),
            "REDIS_URL": self.addresses.redis_url,
            **(more or {}),
        }
        log = self.home / f"worker-{queues}{name}.log"
        with log.open("wb") as sink:
            worker = subprocess.Popen(
                [*before, sys.executable, "-m", "builder.worker", "--queues", queues],
                cwd=self.home,
                env=environment,
                stdout=sink,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
        self.workers.append(worker)
        until("worker started", lambda: worker.poll() is not None or b"worker ready" in log.read_bytes())
        assert worker.poll() is None, log.read_text()
        return worker

    def stop(self) -> None:
        for worker in self.workers:
            if worker.poll() is None:
                worker.kill()
            worker.wait(30)

    def log(self, queues: str, name: str = "") -> str:
        return (self.home / f"worker-{queues}{name}.log").read_text()

    def register(
        self,
        files: dict[str, Path],
        contract: VersionContract = made.CONTRACT,
        model: str = "classifier",
        framework: Framework = Framework.ONNX,
    ) -> Version:
        """Uploads the files, registers and seals a version. Needs a worker on `verify`."""
        with self.client as client:
            entries = tuple(
                FileEntry(path=name, digest=upload(client, path), size=path.stat().st_size)
                for name, path in files.items()
            )
            with contextlib.suppress(ApiError):
                client(models.create(ModelCreate(name=model)))
            made_version = client(
                versions.create(model, VersionCreate(framework=framework, files=entries, contract=contract))
            )
            client(versions.seal(model, made_version.number))
            until(
                "version ready",
                lambda: client(versions.get(model, made_version.number)).stage is VersionStage.READY,
            )
            return client(versions.get(model, made_version.number))

    def register_set(self, folder: Path, name: str) -> Dataset:
        """A data set that `made` wrote."""
        described = Dataset.model_validate_json((folder / "dataset.json").read_bytes())
        with self.client as client:
            for file in (*described.shards, described.index):
                upload(client, folder / file.path)
            return client(
                datasets.create(
                    DatasetCreate(
                        name=name,
                        kind=described.kind,
                        form=described.form,
                        shards=described.shards,
                        index=described.index,
                        rows=described.rows,
                    )
                )
            )

    def build(self, version: Version, recipe: Recipe, no_cache: bool = False, priority: int = 0) -> str:
        body = BuildCreate(
            version=f"{version.model}@{version.number}", recipe=recipe, no_cache=no_cache, priority=priority
        )
        with self.client as client:
            return client(builds.create(body)).id

    def task_of(self, build: str) -> str:
        """The id of the build's task, which only its wake-up tells."""
        with psycopg.connect(self.addresses.database_url) as connection:
            found = connection.execute("SELECT task_id FROM builds WHERE id = %s", (build,)).fetchone()
        assert found is not None
        return str(found[0])

    def expire(self, build: str) -> None:
        """The lease of its task is over, as it would be had half a minute gone by."""
        with psycopg.connect(self.addresses.database_url) as connection:
            connection.execute(
                "UPDATE tasks SET lease_until = clock_timestamp() - interval '1 s' WHERE id = %s",
                (self.task_of(build),),
            )

    def log_of(self, build: str) -> str:
        """What its attempts have logged so far."""
        with self.client as client:
            return client(builds.log(build))

    def see(self, build: str) -> Build:
        with self.client as client:
            return client(builds.get(build))

    def ended(self, build: str) -> Build:
        over = (BuildPhase.COMPLETED, BuildPhase.FAILED, BuildPhase.CANCELLED)
        until(f"build {build} over", lambda: self.see(build).phase in over)
        return self.see(build)


@contextlib.contextmanager
def rigged(addresses: StackAddresses, home: Path) -> Iterator[Rig]:
    registry = RegistryThread(settings(addresses))
    registry.start()
    rig = Rig(registry, addresses, home)
    try:
        yield rig
    finally:
        rig.stop()
        registry.stop()
