"""What the node protocol keeps in memory in one process, and its loops."""

import asyncio
import contextlib
from collections.abc import AsyncIterator
from dataclasses import dataclass

from registry.database import Database
from registry.identity import Identity
from registry.listen import Listener
from registry.nodes.assignments import Assignments
from registry.nodes.directory import Directory
from registry.nodes.intake import Hooks, Intake
from registry.nodes.tokens import TokenCache


@dataclass(frozen=True)
class NodeRoom:
    directory: Directory
    assignments: Assignments
    intake: Intake
    tokens: TokenCache


@contextlib.asynccontextmanager
async def running(
    database: Database, identity: Identity, listener: Listener, hooks: Hooks
) -> AsyncIterator[NodeRoom]:
    """Must be entered before `listener.run`, whose notices it follows."""
    directory = Directory(database, identity)
    directory.subscribe(listener)
    intake = Intake(database, directory, listener, hooks)
    room = NodeRoom(directory, Assignments(directory), intake, TokenCache(database))
    loops = [asyncio.create_task(directory.run()), asyncio.create_task(intake.run())]
    try:
        yield room
    finally:
        for loop in loops:
            loop.cancel()
        await asyncio.gather(*loops, return_exceptions=True)
        await intake.close()
