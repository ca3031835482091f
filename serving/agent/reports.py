"""Reports to the registry: every few seconds, and at once when something important changed."""

import asyncio
import logging
import random
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from registry.client import ApiError, AsyncClient, Unreachable, nodes
from registry.contract.nodes import DeploymentReport, Override, Report, SlotReport
from registry.contract.routes import Fence
from serving.agent.counting import Counting, Gathered, forget_incarnation, last_words, old_incarnations

LEAST_PAUSE_S = 0.25
PART = 40
LAST_WORDS_SEQ = 1_000_000_000

log = logging.getLogger("agent")


@dataclass(frozen=True, slots=True)
class Facts:
    """What a report says besides counters. `alive`: numbers of the gateway workers that run."""

    slots: tuple[SlotReport, ...]
    deployments: tuple[DeploymentReport, ...]
    overrides: tuple[Override, ...]
    memory_free: int
    address: str
    says: str
    alive: frozenset[int]


class Reports:
    """`told_before` is set once the counters of earlier incarnations are with the registry: a report of
    an old incarnation after one of this would look like two agents with one identity."""

    def __init__(
        self,
        client: AsyncClient,
        node: str,
        incarnation: str,
        state: Path,
        version: str,
        facts: Callable[[], Facts],
        contact: Callable[[], None],
    ) -> None:
        self._client = client
        self._node = node
        self._incarnation = incarnation
        self._state = state
        self._version = version
        self._facts = facts
        self._contact = contact
        self._counting = Counting(state, incarnation)
        self._seq = 0
        self._nudged = asyncio.Event()
        self.told_before = asyncio.Event()
        self.trouble = ""

    def nudge(self) -> None:
        """Report soon: a slot became ready or failed, a route changed."""
        self._nudged.set()

    async def run(self, every_s: Callable[[], float]) -> None:
        """Until cancelled."""
        await self._tell_before()
        while True:
            await self.send()
            pause = every_s() * (0.75 + random.random() / 2)  # noqa: S311 - jitter is no secret
            await asyncio.sleep(LEAST_PAUSE_S)
            try:
                async with asyncio.timeout(pause):
                    await self._nudged.wait()
            except TimeoutError:
                continue

    async def send(self) -> bool:
        """One report with all that is known now. True when the registry took it."""
        self._nudged.clear()
        facts = self._facts()
        self._seq += 1
        gathered = await asyncio.to_thread(self._gather, facts)
        report = Report(
            incarnation=self._incarnation,
            seq=self._seq,
            slots=facts.slots,
            deployments=facts.deployments,
            counters=gathered.reports,
            overrides=facts.overrides,
            memory_free_bytes=facts.memory_free,
            address=facts.address,
            says=facts.says[:2048],
            version=self._version,
        )
        if not await self._post(report):
            return False
        self._counting.accepted(gathered)
        return True

    def _gather(self, facts: Facts) -> Gathered:
        fences: dict[str, Fence] = {item.deployment: item.fence for item in facts.deployments if item.fence}
        generations = {name: fence.generation for name, fence in fences.items()}
        return self._counting.gather(self._seq, time.monotonic(), generations, facts.alive)

    async def _tell_before(self) -> None:
        """The last counters of incarnations that ended without a word, in parts of bounded size."""
        for incarnation in old_incarnations(self._state, self._incarnation):
            counters = last_words(self._state, incarnation, LAST_WORDS_SEQ)
            for at in range(0, len(counters), PART):
                report = Report(
                    incarnation=incarnation,
                    seq=LAST_WORDS_SEQ + at // PART,
                    counters=counters[at : at + PART],
                    says="the last counters of an agent that was killed",
                    version=self._version,
                )
                await self._insist(report)
            forget_incarnation(self._state, incarnation)
        self.told_before.set()

    async def _insist(self, report: Report) -> None:
        while True:
            if await self._post(report, final=True):
                return
            await asyncio.sleep(1 + random.random())  # noqa: S311 - jitter is no secret

    async def _post(self, report: Report, final: bool = False) -> bool:
        """False when it must be sent again. A final report that the registry refuses is given up, so
        that it can't hold up those of this incarnation for ever."""
        try:
            await self._client(nodes.report(self._node, report))
        except Unreachable as error:
            self._say(str(error))
            return False
        except ApiError as error:
            self._say(f"the report was refused: {error}")
            return final and error.status in (404, 409, 422)
        self._contact()
        self._say("")
        return True

    def _say(self, trouble: str) -> None:
        if trouble and trouble != self.trouble:
            log.warning("report: %s", trouble)
        self.trouble = trouble
