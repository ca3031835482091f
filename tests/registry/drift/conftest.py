"""Counters as nodes leave them, without the nodes."""

from collections.abc import AsyncIterator
from dataclasses import dataclass
from datetime import datetime
from typing import Any

import pytest
from sqlalchemy import func, select
from sqlalchemy.dialects.postgresql import insert

from registry.contract.counters import SparseCells
from registry.database import Database
from registry.identity import establish
from registry.settings import Settings
from registry.tables.nodes import CounterRow, NodeRow
from tests.registry.nodes.world import World

REF = "prod/files"


@dataclass
class Counting:
    """`report` stores a node's cumulative values as the intake does."""

    world: World

    async def node(self, name: str) -> str:
        async with self.world.database.session() as session, session.begin():
            session.add(
                NodeRow(
                    id=f"nod_{name}",
                    name=name,
                    environment="prod",
                    targets=["ort.cpu"],
                    labels={},
                    hardware={"cores": 1, "memory_bytes": 1},
                    address="",
                )
            )
        return f"nod_{name}"

    async def report(
        self,
        node: str,
        generation: int,
        arm: str,
        seq: int,
        fields: dict[str, dict[int, int]],
        worker: int = 0,
        gap: bool = False,
    ) -> None:
        stored = {
            name: SparseCells(at=tuple(cells), n=tuple(cells.values())).model_dump()
            for name, cells in fields.items()
        }
        key: dict[str, Any] = {
            "node_id": node,
            "incarnation": "first",
            "worker": worker,
            "deployment": REF,
            "generation": generation,
            "arm": arm,
        }
        values = {"seq": seq, "fields": stored, "reported_at": func.clock_timestamp(), "gap": gap}
        statement = insert(CounterRow).values(**key, **values)
        async with self.world.database.session() as session, session.begin():
            await session.execute(
                statement.on_conflict_do_update(
                    index_elements=list(key), set_=values, where=CounterRow.seq < statement.excluded.seq
                )
            )

    async def now(self) -> datetime:
        async with self.world.database.session() as session:
            now: datetime = (await session.execute(select(func.clock_timestamp()))).scalar_one()
            return now


@pytest.fixture
async def database(settings: Settings) -> AsyncIterator[Database]:
    made = Database(settings)
    await establish(made, settings)
    yield made
    await made.close()


@pytest.fixture
def world(database: Database) -> World:
    return World(database)


@pytest.fixture
def counting(world: World) -> Counting:
    return Counting(world)
