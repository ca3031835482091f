"""The embedded stack: PostgreSQL, Valkey and SeaweedFS as children, in parallel, over one data directory."""

import os
import signal
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path

from slipway.stack import directory, identity, ports
from slipway.stack.account import server_account
from slipway.stack.addresses import S3Keys, StackAddresses
from slipway.stack.errors import ServerFailed, StackError
from slipway.stack.external import External
from slipway.stack.log import rotate, tail
from slipway.stack.postgres import Postgres
from slipway.stack.process import Child, pause_until
from slipway.stack.reaper import Reaper
from slipway.stack.seaweed import Seaweed
from slipway.stack.server import NotReady, Server
from slipway.stack.state import RunningServer, StackState
from slipway.stack.valkey import Valkey

_ATTEMPTS = 3
_READY_WITHIN_S = 60.0
_STOP_GRACE_S = 15.0


class Stack:
    """Starts, tends and stops the servers that the environment does not name.

    `data_dir`: the one data directory (default: `default_data_dir()`); one launcher at a time.
    `throwaway`: for tests; faster, and nothing survives a power cut. `environ`: where DATABASE_URL, REDIS_URL
    and S3_ENDPOINT_URL are looked up (default: this process's environment); each one replaces a server.
    """

    def __init__(
        self,
        data_dir: Path | None = None,
        *,
        throwaway: bool = False,
        environ: Mapping[str, str] | None = None,
    ) -> None:
        self._environ = os.environ if environ is None else environ
        self.data_dir = (data_dir or directory.default_data_dir(self._environ)).absolute()
        self._throwaway = throwaway
        self._guard = threading.Lock()
        self._stopping = threading.Event()
        self._state = StackState()
        self._servers: dict[str, Server] = {}
        self._children: dict[str, Child] = {}
        self._lock: directory.DirectoryLock | None = None
        self._reaper: Reaper | None = None
        self._addresses: StackAddresses | None = None

    @contextmanager
    def running(self) -> Iterator[StackAddresses]:
        """Starts the stack for a `with` block."""
        try:
            yield self.start()
        finally:
            self.stop()

    @property
    def addresses(self) -> StackAddresses:
        """Where the servers answer; ValueError before `start`."""
        if self._addresses is None:
            raise ValueError("the stack is not running: call start() first")
        return self._addresses

    @property
    def names(self) -> tuple[str, ...]:
        """The embedded servers that run here: those of `postgres`, `valkey`, `seaweed` not named outside."""
        return tuple(sorted(self._servers))

    def pid(self, name: str) -> int:
        """The process id of a server."""
        return self._children[name].pid

    def log(self, name: str) -> Path:
        """The log file of a server."""
        return self.data_dir / "logs" / f"{name}.log"

    def start(self) -> StackAddresses:
        """Starts every server that is wanted and returns when all of them do real work.

        Raises StackError (and leaves nothing running) with what is wrong and how to mend it.
        """
        if self._lock is not None or self._addresses is not None:
            raise ValueError("the stack is running already")
        external = External.of(self._environ)
        self._stopping.clear()
        try:
            wanted = external.wanted()
            if wanted:
                self._open_data_dir()
            self._addresses = self._start_servers(wanted, external)
        except BaseException:
            self.stop()
            raise
        return self._addresses

    def stop(self) -> None:
        """Stops every server, cleanly; does nothing when none runs."""
        self._stopping.set()
        with self._guard:
            children, self._children = dict(self._children), {}
        if children:
            with ThreadPoolExecutor(len(children)) as pool:
                list(pool.map(lambda child: child.stop(_STOP_GRACE_S), children.values()))
        for server in self._servers.values():
            server.clean_up()
        self._servers = {}
        self._addresses = None
        if self._reaper is not None:
            self._reaper.close()
            self._reaper = None
        if self._lock is not None:
            if self._state.running:
                self._state.running = {}
                self._state.save(self.data_dir)
            self._lock.release()
            self._lock = None

    def kill(self, name: str) -> None:
        """kill -9 of one server, as a crash would; `restart` or `tend` brings it back."""
        self._children[name].kill()

    def restart(self, name: str) -> None:
        """Starts one server again, on the ports it had; stops it first when it runs."""
        self._children[name].stop(_STOP_GRACE_S)
        self._launch(self._servers[name])

    def tend(self) -> list[str]:
        """To be called now and then: restarts servers that ended, caps logs; names the restarted ones.

        Raises StackError, after trying each, for those that did not start; the next call tries again.
        """
        ended = [name for name, child in self._children.items() if not child.alive]
        for name in self._servers:
            rotate(self.log(name))
        failures = []
        for name in ended:
            try:
                self.restart(name)
            except StackError as error:
                failures.append(str(error))
        if failures:
            raise StackError("\n".join(failures))
        return ended

    def _open_data_dir(self) -> None:
        directory.prepare(self.data_dir, server_account())
        lock = directory.DirectoryLock(self.data_dir)
        lock.acquire()
        self._lock = lock
        self._state = StackState.load(self.data_dir)
        left = self._state.running.values()
        identity.stop_all(((s.identity, signal.Signals(s.stop_signal)) for s in left), _STOP_GRACE_S)
        self._state.running = {}
        self._reaper = Reaper()

    def _start_servers(self, wanted: Sequence[str], external: External) -> StackAddresses:
        checks = external.checks()
        with ThreadPoolExecutor(len(wanted) + len(checks)) as pool:
            started = [pool.submit(self._start_server, name, external.bucket) for name in wanted]
            answered = [pool.submit(check) for check in checks]
            try:
                for future in (*started, *answered):
                    future.result()
            except BaseException:
                self._stopping.set()
                raise
        database, broker, objects = (self._servers.get(name) for name in ("postgres", "valkey", "seaweed"))
        keys = external.s3_keys or self._keys()
        return StackAddresses(
            database_url=external.database_url or _url(database),
            redis_url=external.redis_url or _url(broker),
            s3_endpoint_url=external.s3_endpoint_url or _url(objects),
            s3_access_key=keys.access_key,
            s3_secret_key=keys.secret_key,
            bucket=external.bucket,
        )

    def _keys(self) -> S3Keys:
        return S3Keys(self._state.s3_access_key, self._state.s3_secret_key)

    def _start_server(self, name: str, bucket: str) -> None:
        """A port can be taken between choosing and using it; a few fresh tries see to that."""
        for attempt in range(1, _ATTEMPTS + 1):
            server = self._build(name, bucket)
            self._servers[name] = server
            try:
                self._launch(server)
                return
            except ServerFailed:
                child = self._children.get(name)
                if attempt == _ATTEMPTS or child is None or child.alive or self._stopping.is_set():
                    raise
                time.sleep(0.5)

    def _build(self, name: str, bucket: str) -> Server:
        match name:
            case "postgres":
                port = self._ports(name, Postgres.port_names)["sql"]
                account = server_account()
                password = self._state.database_password
                home = self.data_dir / name
                return Postgres(home, port, password, account, self._throwaway, self._environ)
            case "valkey":
                port = self._ports(name, Valkey.port_names)["resp"]
                return Valkey(self.data_dir / name, port, self._state.redis_password, self._environ)
            case "seaweed":
                mine = self._ports(name, Seaweed.port_names)
                home = self.data_dir / name
                return Seaweed(home, mine, self._keys(), bucket, self._throwaway, self._environ)
            case _:
                raise ValueError(f"unknown server {name}: it is one of postgres, valkey, seaweed")

    def _ports(self, server: str, purposes: Sequence[str]) -> dict[str, int]:
        with self._guard:
            prefix = f"{server}."
            others = [number for key, number in self._state.ports.items() if not key.startswith(prefix)]
            names = [prefix + purpose for purpose in purposes]
            chosen = ports.choose(names, self._state.ports, others)
            self._state.ports.update(chosen)
            self._state.save(self.data_dir)
        return {name.removeprefix(prefix): number for name, number in chosen.items()}

    def _launch(self, server: Server) -> None:
        if self._reaper is None:
            raise ValueError("the stack is not running: call start() first")
        log = self.log(server.name)
        rotate(log)
        command = server.command(log)
        with self._guard:
            if self._stopping.is_set():
                raise StackError("the stack is being stopped")
            child = Child(command, self._reaper)
            self._children[server.name] = child
            if child.identity is not None:
                self._state.running[server.name] = RunningServer(
                    identity=child.identity, stop_signal=int(command.stop_signal)
                )
                self._state.save(self.data_dir)
        self._await_ready(server, child)

    def _await_ready(self, server: Server, child: Child) -> None:
        deadline = time.monotonic() + _READY_WITHIN_S
        while not self._stopping.is_set():
            log = child.command.log
            if not child.alive:
                raise ServerFailed(
                    f"{server.name} ended at its start with exit code {child.exit_code}. "
                    f"Its log {log} says:\n{tail(log)}"
                )
            try:
                server.probe()
                return
            except NotReady as reason:
                if not pause_until(deadline):
                    raise ServerFailed(
                        f"{server.name} was not ready within {_READY_WITHIN_S:g} s: {reason}. "
                        f"Its log {log} says:\n{tail(log)}"
                    ) from reason


def _url(server: Server | None) -> str:
    match server:
        case Postgres() | Valkey() | Seaweed():
            return server.url
        case _:
            raise ValueError("a server was neither started nor named outside")
