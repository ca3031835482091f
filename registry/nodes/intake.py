"""What nodes send in: checked, written by group commit, and what follows from it."""

import asyncio
import logging
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import TypeVar

import orjson
from sqlalchemy.exc import SQLAlchemyError
from sqlalchemy.ext.asyncio import AsyncConnection, AsyncSession

from registry.contract.counters import CounterReport, SparseCells
from registry.contract.nodes import Applied, DeploymentReport, Override, Report
from registry.contract.routes import Fence
from registry.database import Database
from registry.errors import Conflict, Invalid, NotFound
from registry.listen import Listener
from registry.nodes import facts, ledger, moments
from registry.nodes.assignments import report_every_s
from registry.nodes.directory import Directory
from registry.nodes.fragments import NodeFacts
from registry.nodes.groupcommit import GroupCommit
from registry.nodes.ledger import CounterValues, Recorded, ReportValues
from registry.nodes.moments import AppliedValues, Confirmed

log = logging.getLogger(__name__)

T = TypeVar("T")

REPORTS_GATHER_S = 0.02
APPLIED_GATHER_S = 0.003
CONTACTS_EVERY_S = 1.0
MOST_REMEMBERED = 10_000
MOST_CELLS = 1 << 16
MOST_COUNTED = 1 << 60


@dataclass(frozen=True)
class Hooks:
    """What other rooms do about a report, each in a transaction of its own, once per process.

    on_override: a break-glass rollback was made on this node. on_higher_fence: the node follows a route
    that this registry does not know (it was restored from a backup).
    """

    on_override: Callable[[AsyncSession, NodeFacts, Override], Awaitable[None]] | None = None
    on_higher_fence: Callable[[AsyncSession, NodeFacts, DeploymentReport], Awaitable[None]] | None = None


class Intake:
    """One per process, on its loop."""

    def __init__(self, database: Database, directory: Directory, listener: Listener, hooks: Hooks) -> None:
        self._database = database
        self._directory = directory
        self._listener = listener
        self._hooks = hooks
        self._contacts: set[str] = set()
        self._followed: set[tuple[str, ...]] = set()
        self._reports = GroupCommit[ReportValues, Recorded](
            self._write_reports, lambda each: each.node_id, REPORTS_GATHER_S
        )
        self._applied = GroupCommit[AppliedValues, Confirmed](
            self._write_applied,
            lambda each: (each.node_id, each.environment, each.deployment),
            APPLIED_GATHER_S,
        )

    async def close(self) -> None:
        """Writes what is under way."""
        await self._reports.close()
        await self._applied.close()

    def contact(self, node_id: str) -> None:
        """The node asked something; kept within a second."""
        self._contacts.add(node_id)

    async def run(self) -> None:
        """For ever: keeps contacts."""
        while True:
            await asyncio.sleep(CONTACTS_EVERY_S)
            contacts, self._contacts = self._contacts, set()
            if not contacts:
                continue
            try:
                async with self._autocommit() as connection:
                    await ledger.write_contacts(connection, contacts)
            except (SQLAlchemyError, OSError) as error:
                log.warning("contacts of %d nodes not kept: %s", len(contacts), error)

    async def report(self, node: NodeFacts, report: Report) -> None:
        """Returns once it is committed. Raises Invalid, and Conflict for a duplicate agent."""
        values = ReportValues(
            node_id=node.id,
            incarnation=report.incarnation,
            seq=report.seq,
            report=report.model_dump_json(exclude={"counters"}),
            address=report.address,
            counters=_counters(node, report.counters),
        )
        recorded = await self._reports.submit(values)
        if recorded.duplicate:
            raise Conflict(
                f"another agent reports as node {node.name} ({node.id}) and started later than this one",
                "stop one of the two: a node's token and data directory belong to one agent; "
                "enrol the other one under a name of its own",
            )
        await self._follow(node, report)

    async def applied(self, node: NodeFacts, applied: Applied) -> None:
        """Returns once it is committed. Raises NotFound, and Conflict for what can't be this node's fact."""
        if applied.fence.registry_id != self._directory.identity.registry_id:
            raise Conflict(
                f"the fence is of registry {applied.fence.registry_id}, "
                f"this is {self._directory.identity.registry_id}",
                "a node that moves to another registry enrols there first",
            )
        environment, _, name = applied.deployment.partition("/")
        confirmed = await self._applied.submit(
            AppliedValues(
                node_id=node.id,
                incarnation=applied.incarnation,
                environment=environment,
                deployment=name,
                timeline=applied.fence.timeline,
                generation=applied.fence.generation,
                drained=applied.moment == "drained",
                local_ms=applied.local_ms,
            )
        )
        if confirmed.deployment_id is None:
            if self._directory.deployment(applied.deployment) is None:
                raise NotFound(
                    f"there is no deployment {applied.deployment}", "list them: slipway deployment list"
                )
            raise Conflict(
                f"a later agent has taken over node {node.name}; {applied.incarnation} speaks for it no more",
                "stop this agent",
            )

    async def _write_reports(self, batch: Sequence[ReportValues]) -> list[Recorded]:
        async with self._autocommit() as connection:
            return await ledger.write_reports(connection, batch, report_every_s(self._directory.fleet))

    async def _write_applied(self, batch: Sequence[AppliedValues]) -> list[Confirmed]:
        async with self._autocommit() as connection:
            results = await moments.write_applied(connection, batch)
            payloads = set()
            for values, result in zip(batch, results, strict=True):
                if result.deployment_id is not None:
                    self._listener.applied.wake(result.deployment_id)
                    payloads.add(f"{result.deployment_id}:{values.generation}")
            if payloads:
                try:
                    await moments.notify_applied(connection, payloads)
                except SQLAlchemyError as error:
                    # The fact is safe; who waits in another process finds it within seconds.
                    log.warning("waiting receipts not woken: %s", error)
            return results

    @asynccontextmanager
    async def _autocommit(self) -> AsyncIterator[AsyncConnection]:
        """One statement is one transaction and one round trip."""
        async with self._database.engine.connect() as connection:
            yield await connection.execution_options(isolation_level="AUTOCOMMIT")

    async def _follow(self, node: NodeFacts, report: Report) -> None:
        """What other rooms do about it. Their failure does not undo the report; the next one tries again."""
        if (on_override := self._hooks.on_override) is not None:
            for override in report.overrides:
                await self._once(("override", node.id, override.id), on_override, node, override)
        if (on_higher := self._hooks.on_higher_fence) is not None:
            for deployment in report.deployments:
                fence = deployment.fence
                if fence is not None and await self._is_higher(deployment.deployment, fence):
                    key = ("fence", deployment.deployment, fence.model_dump_json())
                    await self._once(key, on_higher, node, deployment)

    async def _is_higher(self, deployment: str, fence: Fence) -> bool:
        """The directory may lag behind, so the tables have the last word."""
        if fence.registry_id != self._directory.identity.registry_id:
            return False
        known = self._directory.deployment(deployment)
        if known is not None and not _higher(fence, known.route.fence.timeline, known.generation):
            return False
        async with self._database.session() as session:
            newest = await facts.newest_fence(session, deployment)
        return newest is not None and _higher(fence, *newest)

    async def _once(
        self,
        key: tuple[str, ...],
        hook: Callable[[AsyncSession, NodeFacts, T], Awaitable[None]],
        node: NodeFacts,
        what: T,
    ) -> None:
        if key in self._followed:
            return
        if len(self._followed) >= MOST_REMEMBERED:
            self._followed.clear()
        self._followed.add(key)
        try:
            async with self._database.session() as session, session.begin():
                await hook(session, node, what)
        except Exception:
            self._followed.discard(key)
            log.exception("what node %s reported could not be followed: %s", node.name, key)


def _higher(fence: Fence, timeline: int, generation: int) -> bool:
    return fence.generation > generation or fence.timeline > timeline


def _counters(node: NodeFacts, counters: Sequence[CounterReport]) -> tuple[CounterValues, ...]:
    """The newest of each key. Raises Invalid before a batch can suffer from it."""
    newest: dict[tuple[object, ...], CounterValues] = {}
    for counter in counters:
        if not counter.deployment.startswith(f"{node.environment}/"):
            raise Invalid(
                f"node {node.name} is of {node.environment} and can't count for {counter.deployment}",
                "a node serves the environment that it was invited to",
            )
        values = CounterValues(
            counter.worker,
            counter.deployment,
            counter.generation,
            counter.arm,
            counter.seq,
            orjson.dumps({name: _cells(name, cells) for name, cells in counter.fields.items()}).decode(),
        )
        key = (counter.worker, counter.deployment, counter.generation, counter.arm)
        if key not in newest or newest[key].seq < counter.seq:
            newest[key] = values
    return tuple(newest.values())


def _cells(name: str, cells: SparseCells) -> dict[str, tuple[int, ...]]:
    if (
        len(cells.at) != len(cells.n)
        or len(set(cells.at)) != len(cells.at)
        or not 0 <= min(cells.at, default=0) <= max(cells.at, default=0) < MOST_CELLS
        or not 0 <= min(cells.n, default=0) <= max(cells.n, default=0) < MOST_COUNTED
    ):
        raise Invalid(
            f"counter {name} is not a list of cells with their counts",
            f"send distinct places from 0 to {MOST_CELLS - 1} with one count each, none negative",
        )
    return {"at": cells.at, "n": cells.n}
