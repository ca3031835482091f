"""The whole service on one machine, as children of a launcher: registry, workers, nodes."""

import errno
import socket
import sys
from dataclasses import dataclass
from pathlib import Path

import httpx

from slipway.children import ChildSpec
from slipway.credentials import FILE, Credentials, keep, kept_secret
from slipway.stack import StackAddresses, StackError
from slipway.stack.ports import LOOPBACK
from slipway.up import Plan

_ASKED_FOR_S = 2.0
READY = """
Slipway runs.
  web UI and API   {url}
  admin token      {token_file}
  try              slipway node list
Ctrl-C stops everything; the data stays in {home}."""


@dataclass(frozen=True)
class Options:
    """`home`: everything of this service (default `.slipway`). `port` 0: any free one."""

    home: Path
    port: int = 8080
    nodes: int = 2
    environment: str = "prod"
    build_workers: int = 1
    node_threads: int = 1


def plan(options: Options, addresses: StackAddresses) -> Plan:
    """Children in the order in which they start; workers and nodes reach the registry by HTTP alone.

    Raises StackError when the port is taken.
    """
    home = options.home.resolve()
    if options.port:
        require_free(options.port)
    port = options.port or _free_port()
    url = f"http://{LOOPBACK}:{port}"
    admin = kept_secret(home / "admin-token")
    builder = kept_secret(home / "builder-token")
    keep(home / FILE.name, Credentials(url, admin))
    environment = {**addresses.environment(), "SLIPWAY_REGISTRY_URL": url}
    python = sys.executable
    server = ChildSpec(
        "registry",
        (python, "-m", "slipway.server", "--port", str(port)),
        {"SLIPWAY_ADMIN_TOKEN": admin, "SLIPWAY_BUILDER_TOKEN": builder},
        ready_url=f"{url}/readyz",
        names_itself=True,
        outlives_others=True,
    )
    worker = {"SLIPWAY_TOKEN": builder, "SLIPWAY_WORK_DIR": str(home / "work")}
    workers = [
        ChildSpec("worker-verify", (python, "-m", "builder.worker", "--queues", "verify"), worker),
        *(
            ChildSpec(f"worker-build-{n}", (python, "-m", "builder.worker", "--queues", "cpu"), worker)
            for n in range(1, options.build_workers + 1)
        ),
    ]
    nodes = [_node(options, home, admin, n) for n in range(1, options.nodes + 1)]
    return Plan(
        [server, *workers, *nodes],
        environment,
        READY.format(url=url, token_file=home / "admin-token", home=home),
    )


def _node(options: Options, home: Path, admin: str, n: int) -> ChildSpec:
    name = f"node-{n}"
    argv = (
        sys.executable,
        "-m",
        "slipway.localnode",
        "--environment",
        options.environment,
        "--state",
        str(home / "nodes" / name),
        "--name",
        name,
        "--threads",
        str(options.node_threads),
    )
    return ChildSpec(name, argv, {"SLIPWAY_ADMIN_TOKEN": admin})


def require_free(port: int) -> None:
    """Raises StackError, which names who has the port."""
    with socket.socket() as probe:
        # As servers do: connections that linger in TIME_WAIT don't make a port taken.
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((LOOPBACK, port))
        except OSError as error:
            if error.errno != errno.EADDRINUSE:
                raise StackError(
                    f"port {port} can't be used: {error.strerror}. Choose another one: slipway up --port 0"
                ) from error
        else:
            return
    raise StackError(
        f"port {port} is taken by {_holder(port)}. Stop that one (ss -ltnp shows it), or choose another "
        "port: slipway up --port 0"
    )


def _holder(port: int) -> str:
    try:
        answer = httpx.get(f"http://{LOOPBACK}:{port}/readyz", timeout=_ASKED_FOR_S, trust_env=False)
    except httpx.HTTPError:
        return "another program"
    registry = answer.headers.get("x-slipway-registry")
    return f"another Slipway (registry id {registry})" if registry else "another program"


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind((LOOPBACK, 0))
        port: int = probe.getsockname()[1]
        return port
