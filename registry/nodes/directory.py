"""What every waiting node is told, in memory: an answer needs no database session.

Kept fresh by notices and, since one may be lost, by a look at everything every few seconds. A directory
that could not look for long refuses to answer: a node must not be held at an old generation by a registry
process that is cut off, for its contact renews the canary's lease.
"""

import asyncio
import logging
from collections.abc import Iterable
from time import monotonic

from sqlalchemy.exc import SQLAlchemyError
from sqlalchemy.ext.asyncio import AsyncSession

from registry.contract.identity import ArmId
from registry.database import Database
from registry.errors import NotFound, Unavailable
from registry.identity import Identity
from registry.listen import Channel, Listener, Waiters, generation_of, key_of
from registry.nodes import facts
from registry.nodes.fragments import ArmFacts, DeploymentFacts, NodeFacts

log = logging.getLogger(__name__)

RETRY_S = 0.2
BEHIND_S = 0.02
TRUSTED_S = 20.0


class Directory:
    """`waiters` wait by environment. Everything runs on one loop; between awaits the state is consistent."""

    def __init__(self, database: Database, identity: Identity) -> None:
        self._database = database
        self.identity = identity
        self.fleet = 0
        self.waiters = Waiters()
        self.arms: dict[ArmId, ArmFacts] = {}
        self._nodes: dict[str, NodeFacts] = {}
        self._deployments: dict[str, DeploymentFacts] = {}
        self._environments: set[str] = set()
        self._notified: dict[str, int] = {}
        self._dirty_nodes: set[str] = set()
        self._doubt = False
        self._work = asyncio.Event()
        self._opening = asyncio.Lock()
        self._looked = monotonic()

    def subscribe(self, listener: Listener) -> None:
        listener.subscribe(Channel.ROUTES, self._on_route, self._on_doubt)
        listener.subscribe(Channel.NODES, self._on_node, self._on_doubt)

    def _on_route(self, payload: str) -> None:
        known = self._notified.get(key_of(payload), 0)
        self._notified[key_of(payload)] = max(known, generation_of(payload))
        self._work.set()

    def _on_node(self, payload: str) -> None:
        self._dirty_nodes.add(payload)
        self._work.set()

    def _on_doubt(self) -> None:
        self._doubt = True
        self._work.set()

    async def node(self, node_id: str) -> NodeFacts:
        """Raises NotFound, and Unavailable when this process does not know the present state.

        The first question from an environment reads the whole environment; later ones read nothing.
        """
        if monotonic() - self._looked > TRUSTED_S:
            raise Unavailable(
                "this registry process has lost touch with the database",
                "ask another one, or try again shortly; nodes keep what they have",
                retry_after_s=2,
            )
        node = self._nodes.get(node_id)
        if node is not None:
            return node
        async with self._opening:
            return self._nodes.get(node_id) or await self._open(node_id)

    async def _open(self, node_id: str) -> NodeFacts:
        async with self._database.session() as session:
            for node in await facts.nodes(session, [node_id]):
                if node.environment not in self._environments:
                    self._nodes.update(
                        (each.id, each) for each in await facts.nodes_of(session, [node.environment])
                    )
                    ids = await facts.signatures(session, [node.environment])
                    await self._take(session, await facts.deployments(session, ids))
                    self.fleet = await facts.fleet(session)
                    self._environments.add(node.environment)
                self._nodes[node.id] = node
                return node
        raise NotFound(f"there is no node {node_id}", "list them: slipway node list; or enrol it again")

    def of(self, node: NodeFacts) -> list[DeploymentFacts]:
        """What applies to the node, by name."""
        found = [each for each in self._deployments.values() if each.applies_to(node)]
        return sorted(found, key=lambda each: each.ref)

    def deployment(self, ref: str) -> DeploymentFacts | None:
        """None: it has no route, or no node of its environment has asked here yet."""
        return next((each for each in self._deployments.values() if each.ref == ref), None)

    async def run(self) -> None:
        """For ever: follows the notices. A failed look is repeated shortly after."""
        while True:
            await self._work.wait()
            self._work.clear()
            try:
                behind = await self._look()
            except (SQLAlchemyError, OSError) as error:
                log.warning("nodes wait on what was known before: %s", error)
                self._doubt = True
                await self._again(RETRY_S)
            else:
                if behind:
                    await self._again(BEHIND_S)

    async def _again(self, pause_s: float) -> None:
        await asyncio.sleep(pause_s)
        self._work.set()

    async def _look(self) -> bool:
        """True: something that was read is older than its notice (a replica answered), so look again."""
        doubt, self._doubt = self._doubt, False
        dirty, self._dirty_nodes = self._dirty_nodes, set()
        notified = dict(self._notified)
        began = monotonic()
        async with self._database.session() as session:
            wanted = set(notified)
            nodes = await facts.nodes(session, dirty) if dirty else []
            if doubt:
                nodes += await facts.nodes_of(session, self._environments)
                self.identity = await facts.identity(session)
                self.fleet = await facts.fleet(session)
                signatures = await facts.signatures(session, self._environments)
                wanted |= {
                    each for each, found in signatures.items() if not found.is_of(self._deployments.get(each))
                }
            touched = self._take_nodes(nodes)
            found = await facts.deployments(session, wanted) if wanted else []
            # After doubt the tables are right, whatever a notice from before a restore said.
            self._settle(notified, found, force=doubt)
            touched |= await self._take(session, found)
        if doubt:
            self._looked = began
            self.waiters.wake_all()
        else:
            for environment in touched:
                self.waiters.wake(environment)
        return bool(self._notified)

    def _settle(self, notified: dict[str, int], found: Iterable[DeploymentFacts], *, force: bool) -> None:
        """Forgets the notices that were followed: what was read is at least as new, or has no route."""
        read = {each.id: each.generation for each in found}
        for each, generation in notified.items():
            if (force or read.get(each, generation) >= generation) and self._notified[each] == generation:
                del self._notified[each]

    def _take_nodes(self, nodes: Iterable[NodeFacts]) -> set[str]:
        touched = set()
        for node in nodes:
            if node.environment in self._environments and self._nodes.get(node.id) != node:
                self._nodes[node.id] = node
                touched.add(node.environment)
        return touched

    async def _take(self, session: AsyncSession, found: list[DeploymentFacts]) -> set[str]:
        """Stores what is news, with the arms that it names; the environments that it touches."""
        missing = {arm for each in found for arm in each.arms} - self.arms.keys()
        if missing:
            self.arms.update(await facts.arms(session, missing))
        touched = set()
        for each in found:
            known = self._deployments.get(each.id)
            if each.generation < self._notified.get(each.id, 0) or (known and known.order > each.order):
                continue
            if each != known:
                self._deployments[each.id] = each
                touched.add(each.environment)
        return touched
