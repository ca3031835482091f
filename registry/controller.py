"""The release loop: claims releases by lease, looks at nodes and evidence, and moves what may move.

It computes outside any transaction that holds a lock and writes by a short compare-and-set, so that a
rollback by hand never waits for it. Several processes may run it; a release has one controller at a time.
"""

import asyncio
import logging
import secrets
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import assert_never

from sqlalchemy.exc import SQLAlchemyError
from sqlalchemy.orm.exc import StaleDataError

from registry.contract.deployments import Policy
from registry.contract.releases import ReleasePhase
from registry.contract.routes import RouteCause
from registry.deployments import service as deployments
from registry.edge.principal import SYSTEM
from registry.edge.resources import Resources
from registry.edge.unit import Unit
from registry.errors import Refusal
from registry.identity import Identity
from registry.lifecycle import tending
from registry.lifecycle.releases import ReleaseEvent
from registry.lifecycle.tending import Begin, Complete, Decision, GiveUp, NodeState, Returned, Wait
from registry.nodes.pool import PoolNode, pool
from registry.releases import history, judge, service, steps
from registry.releases.end import end_active
from registry.releases.locking import locked
from registry.tables.journal import MoveRefused
from registry.tables.releases import ReleaseRow

log = logging.getLogger(__name__)

LEASE_LOOKS = 5
LEAST_LEASE_S = 5.0
PREPARE_LIMIT_S = 1800.0


class Controller:
    """One per process. `run` goes on until it is cancelled; one failing release leaves the others alone."""

    def __init__(self, resources: Resources, identity: Identity) -> None:
        self._resources = resources
        self._identity = identity
        self._every_s = resources.settings.look_every_s
        self._name = f"{socket.gethostname()}-{secrets.token_hex(4)}"

    async def run(self) -> None:
        while True:
            await asyncio.sleep(self._every_s)
            try:
                await self.look()
            except (SQLAlchemyError, OSError) as error:
                log.warning("the controller could not look: %s", error)

    async def look(self) -> None:
        """One round over all releases that need tending."""
        lease_s = max(LEAST_LEASE_S, LEASE_LOOKS * self._every_s)
        async with self._resources.database.session() as session, session.begin():
            claimed = await service.claim(session, self._name, lease_s)
        for release_id, fence in claimed:
            try:
                await self._tend(release_id, fence)
            except (StaleDataError, MoveRefused) as error:
                log.info("release %s moved meanwhile: %s", release_id, error)
            except (Refusal, SQLAlchemyError) as error:
                log.warning("release %s: %s", release_id, error)
            except Exception:
                log.exception("release %s could not be tended", release_id)

    async def _tend(self, release_id: str, fence: int) -> None:
        async with self._unit() as unit:
            row = await unit.session.get(ReleaseRow, release_id)
            assert row is not None
            phase = ReleasePhase(row.phase)
            if phase is not ReleasePhase.RUNNING:
                decision = await self._decide(unit, row, phase)
        if phase is ReleasePhase.RUNNING:
            await judge.judge(self._unit, release_id, fence)
        elif not isinstance(decision, Wait):
            await self._apply(release_id, fence, phase, decision)
        elif decision.reason != row.phase_reason:
            await self._tell(release_id, fence, phase, decision.reason)

    async def _decide(self, unit: Unit, row: ReleaseRow, phase: ReleasePhase) -> Decision:
        deployment = await deployments.row_by_id(unit.session, row.deployment_id)
        nodes = await pool(
            unit.session, deployment, self._identity.timeline, self._resources.settings.node_stale_s
        )
        policy = Policy.model_validate(row.policy)
        return tending.decide(
            phase,
            [_state(node, row.arm_id) for node in nodes],
            min_ready=policy.min_ready,
            since=row.phase_since,
            now=await service.now(unit.session),
            prepare_limit_s=PREPARE_LIMIT_S,
            node_timeout_s=policy.node_timeout_s,
        )

    async def _apply(self, release_id: str, fence: int, phase: ReleasePhase, decision: Decision) -> None:
        async with self._unit() as unit:
            deployment, row = await locked(unit, release_id)
            if row.controller_fence != fence or row.phase != phase or row.hold:
                return
            match decision:
                case Wait():
                    return
                case Begin(left_out):
                    row.left_out = [node.id for node in left_out]
                    names = ", ".join(node.name for node in left_out)
                    reason = "every node is ready" if not left_out else f"left out: {names}"
                    await steps.step_forward(unit, deployment, row, reason, by_command=False)
                case GiveUp(reason):
                    await end_active(
                        unit,
                        deployment,
                        row,
                        ReleaseEvent.FAIL,
                        RouteCause.ABORT,
                        reason,
                        by_command=False,
                    )
                case Complete(laggards):
                    row.left_out = []
                    await steps.complete(unit, deployment, row, [node.name for node in laggards])
                case Returned(laggards):
                    row.laggards = [node.name for node in laggards]
                    row.left_out = []
                    await history.move(
                        unit, row, ReleaseEvent.RETURNED, _returned(laggards), by_command=False
                    )
                case _:
                    assert_never(decision)

    async def _tell(self, release_id: str, fence: int, phase: ReleasePhase, reason: str) -> None:
        """Keeps what the release waits for where people read it."""
        async with self._unit() as unit:
            _, row = await locked(unit, release_id)
            if row.controller_fence == fence and row.phase == phase:
                row.phase_reason = reason

    @asynccontextmanager
    async def _unit(self) -> AsyncIterator[Unit]:
        async with self._resources.database.session() as session, session.begin():
            yield Unit(session, self._resources, self._identity, SYSTEM, via="controller")


def _returned(laggards: tuple[NodeState, ...]) -> str:
    if not laggards:
        return "every node is back"
    return "not confirmed by: " + ", ".join(node.name for node in laggards)


def _state(node: PoolNode, arm: str) -> NodeState:
    return NodeState(
        node.id,
        node.name,
        node.fresh and not node.draining,
        node.ready(arm),
        node.failure(arm),
        node.switched_at is not None,
        node.drained_at is not None,
    )
