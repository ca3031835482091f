"""The demo's own service: the whole stack in a directory of its own, on free ports."""

import os
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from slipway.client import Client
from slipway.credentials import FILE, Credentials, load
from slipway.launcher import Launcher
from slipway.service import Options, plan
from slipway.stack import Stack
from slipway.up import migrate


@dataclass(frozen=True)
class Service:
    """`client` is the admin's. `launcher` starts and kills its processes by name."""

    home: Path
    credentials: Credentials
    client: Client
    launcher: Launcher


@contextmanager
def service(home: Path, announce: Callable[[str], None], nodes: int = 2) -> Iterator[Service]:
    """Starts everything afresh in `home`, and stops it at the end of the block."""
    if home.exists():
        shutil.rmtree(home)
    stack = Stack(home / "data")
    with stack.running() as addresses:
        announce("PostgreSQL, Valkey and SeaweedFS are up")
        migrate(addresses)
        planned = plan(Options(home=home, port=0, nodes=nodes), addresses)
        launcher = Launcher(
            planned.children,
            log_dir=home / "logs",
            environment={**os.environ, **planned.environment},
            tend=stack.tend,
            announce=announce,
        )
        with launcher:
            launcher.start_all()
            credentials = load(home / FILE.name)
            with Client(credentials.url, credentials.token) as client:
                yield Service(home, credentials, client, launcher)
