"""What the node protocol keeps in memory in one process, and its loops."""

import contextlib
from collections.abc import AsyncIterator
from dataclasses import dataclass

from registry import background
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
    tokens = TokenCache(database)
    tokens.subscribe(listener)
    room = NodeRoom(directory, Assignments(directory), intake, tokens)
    try:
        async with background.running(directory.run, intake.run):
            yield room
    finally:
        await intake.close()
