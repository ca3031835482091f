"""Nodes that follow their assignments as real agents do: load what is named, switch, drain, say so."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

import httpx

from registry.contract.nodes import Applied, Assignment, DeploymentReport, Fragment, SlotPhase, SlotReport
from tests.registry.conftest import Registry
from tests.registry.nodes.agents import Agent, enrol


@dataclass
class Node:
    """`fails`: arm → reason why it can't be loaded. `deaf`: it stops following and reporting."""

    agent: Agent
    name: str
    fails: dict[str, str] = field(default_factory=dict)
    deaf: bool = False
    seen: list[int] = field(default_factory=list)

    async def follow(self) -> None:
        etag: str | None = None
        while True:
            if self.deaf:
                await asyncio.sleep(0.02)
                continue
            answer = await self.agent.poll(wait=0.5, etag=etag)
            if answer.status_code != 200 or self.deaf:
                await self._report(())
                continue
            etag = answer.headers["etag"]
            fragments = Assignment.model_validate_json(answer.content).fragments
            await self._report(fragments)
            for fragment in fragments:
                self.seen.append(fragment.fence.generation)
                for moment in ("switched", "drained"):
                    await self._applied(fragment, moment)

    async def _applied(self, fragment: Fragment, moment: str) -> None:
        body = Applied(
            incarnation="first",
            deployment=fragment.deployment,
            fence=fragment.fence,
            moment=moment,  # type: ignore[arg-type]
            local_ms=1,
        )
        await self.agent.http.post("applied", content=body.model_dump_json())

    async def _report(self, fragments: tuple[Fragment, ...]) -> None:
        if not fragments:
            await self.agent.report(**self._last)
            return
        slots = [
            SlotReport(
                deployment=fragment.deployment,
                arm=arm.arm,
                version=arm.version,
                engine=arm.engine.digest if arm.engine else None,
                phase=SlotPhase.FAILED if arm.arm in self.fails else SlotPhase.READY,
                reason=self.fails.get(arm.arm, ""),
            )
            for fragment in fragments
            for arm in fragment.arms
        ]
        deployments = [
            DeploymentReport(
                deployment=fragment.deployment,
                fence=fragment.fence,
                switched=True,
                drained=True,
                shares={arm.arm: arm.share for arm in fragment.arms},
                ready=True,
            )
            for fragment in fragments
        ]
        self._last = {"slots": tuple(slots), "deployments": tuple(deployments), "memory_free_bytes": 1 << 30}
        await self.agent.report(**self._last)

    _last: dict[str, object] = field(default_factory=lambda: {"memory_free_bytes": 1 << 30})


@asynccontextmanager
async def fleet(registry: Registry, size: int = 2, environment: str = "prod") -> AsyncIterator[list[Node]]:
    """Enrolled nodes that follow until the end of the block."""
    nodes = []
    for at in range(size):
        agent = Agent(registry.url, await enrol(registry, f"n{at + 1}", environment))
        nodes.append(Node(agent, f"n{at + 1}"))
        await agent.report(memory_free_bytes=1 << 30)
    tasks = [asyncio.create_task(_resilient(node)) for node in nodes]
    try:
        yield nodes
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        for node in nodes:
            await node.agent.http.aclose()


async def _resilient(node: Node) -> None:
    while True:
        try:
            await node.follow()
        except httpx.TransportError:
            await asyncio.sleep(0.05)
