"""The command line, in a process of its own, against a test's registry."""

import asyncio
import os
import sys
from asyncio.subprocess import PIPE, Process

from tests.registry.conftest import ADMIN, Registry


async def start(registry: Registry, *arguments: str) -> Process:
    """`slipway ARGUMENTS` in the admin's name."""
    return await asyncio.create_subprocess_exec(
        sys.executable,
        "-c",
        "from slipway.cli import main; main()",
        *arguments,
        env={**os.environ, "SLIPWAY_URL": registry.url, "SLIPWAY_TOKEN": ADMIN},
        stdout=PIPE,
        stderr=PIPE,
    )


async def slipway(registry: Registry, *arguments: str) -> tuple[str, str]:
    """What it printed on stdout and stderr; it must succeed."""
    process = await start(registry, *arguments)
    out, err = await process.communicate()
    assert process.returncode == 0, err.decode()
    return out.decode(), err.decode()
