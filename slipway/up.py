"""`slipway up`: the whole service on one machine, in the foreground, until it is told to stop."""

import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from registry.client.secrets import redacted
from slipway.children import ChildSpec
from slipway.launcher import Launcher
from slipway.stack import Stack, StackAddresses, StackError, default_log_dir


@dataclass(frozen=True)
class Plan:
    """What to run on top of the stack. `environment`: for every child; `ready`: printed when all works."""

    children: Sequence[ChildSpec]
    environment: dict[str, str]
    ready: str


def up(
    plan: Callable[[StackAddresses], Plan],
    *,
    data_dir: Path | None = None,
    log_dir: Path | None = None,
    announce: Callable[[str], None] = print,
    ready: Callable[[Plan], None] | None = None,
) -> None:
    """Starts the stack, brings the database to the newest schema, runs the plan; returns when told to stop.

    `data_dir`: default `default_data_dir()`; `log_dir`: default `default_log_dir(data_dir)`. `ready`: told
    the plan when all of it works; default: its sentence is announced.
    Raises StackError or ChildFailed, with nothing left running.
    """
    stack = Stack(data_dir)
    with _terminated_like_interrupted(), stack.running() as addresses:
        announce(f"servers are up (data: {stack.data_dir})")
        migrate(addresses)
        planned = plan(addresses)
        launcher = Launcher(
            planned.children,
            log_dir=log_dir or default_log_dir(stack.data_dir),
            environment={**os.environ, **addresses.environment(), **planned.environment},
            tend=stack.tend,
            announce=announce,
        )
        launcher.run(lambda: announce(planned.ready) if ready is None else ready(planned))


def migrate(addresses: StackAddresses) -> None:
    """Runs the registry's migrations in a process of their own; raises StackError with what it said."""
    done = subprocess.run(
        [sys.executable, "-m", "registry.migrate"],
        env={**os.environ, **addresses.environment()},
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode != 0:
        said = redacted((done.stdout + done.stderr).strip(), addresses.database_url)
        raise StackError(f"the database could not be migrated:\n{said}")


@contextmanager
def _terminated_like_interrupted() -> Iterator[None]:
    """While the stack starts and stops, SIGTERM and SIGHUP unwind as Ctrl-C does."""
    numbers = (signal.SIGTERM, signal.SIGHUP)
    before = {number: signal.signal(number, signal.default_int_handler) for number in numbers}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
