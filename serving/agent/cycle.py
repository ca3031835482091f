"""The agent's loop: snapshot → decide → act → a sentence saying what it did."""

import asyncio
import logging
import os
import re
import time
from collections.abc import Callable
from typing import assert_never

from registry.contract.nodes import Applied
from serving.agent.actions import (
    Action,
    Adopt,
    Confirm,
    Decision,
    Evict,
    Fetch,
    ForgetBad,
    Publish,
    StartEngine,
    StopEngine,
)
from serving.agent.confirm import Confirmations
from serving.agent.decide import decide
from serving.agent.engines import Engines
from serving.agent.fetch import Fetcher
from serving.agent.gateways import Gateways
from serving.agent.hardware import memory_free
from serving.agent.ledger import Ledger
from serving.agent.snapshot import IN_PROGRESS, Snapshot

TICK_S = 1.0

log = logging.getLogger("agent")


class Cycle:
    """`important` is called when the last decision changed what the registry should know soon."""

    def __init__(
        self,
        ledger: Ledger,
        fetcher: Fetcher,
        engines: Engines,
        gateways: Gateways,
        confirmations: Confirmations,
        incarnation: str,
        important: Callable[[], None],
    ) -> None:
        self._ledger = ledger
        self._fetcher = fetcher
        self._engines = engines
        self._gateways = gateways
        self._confirmations = confirmations
        self._incarnation = incarnation
        self._important = important
        self._woken = asyncio.Event()
        self.stopping = False
        self.decision = Decision((), (), (), "the node starts", "", None)

    def wake(self) -> None:
        """Something changed: look again."""
        self._woken.set()

    async def run(self) -> None:
        """Until cancelled: at every event, and every second for what has no event (memory, time)."""
        while True:
            self._woken.clear()
            self.turn()
            wake_at = self.decision.wake_at
            pause = TICK_S if wake_at is None else min(TICK_S, max(0.01, wake_at - time.monotonic()))
            try:
                async with asyncio.timeout(pause):
                    await self._woken.wait()
            except TimeoutError:
                continue

    def turn(self) -> None:
        """One look and what follows of it. Doesn't wait for anything."""
        before = self.decision
        self.decision = decide(self.snapshot())
        for action in self.decision.actions:
            self._act(action)
        if self.decision.actions:
            # An action changes what the next look sees, mostly at once.
            self._woken.set()
        if self.decision.actions or _words(before) != _words(self.decision):
            log.info("%s", self.decision.says)
        if _news(before) != _news(self.decision):
            self._important()

    def snapshot(self) -> Snapshot:
        ledger = self._ledger
        return Snapshot(
            now=time.monotonic(),
            last_contact=ledger.last_contact,
            lease_s=ledger.lease_s,
            holdings=ledger.holdings,
            slots=self._engines.slots(),
            disk=self._fetcher.disk,
            downloads=dict(self._fetcher.downloads),
            bad=dict(ledger.bad),
            memory_free=memory_free(),
            published=self._gateways.published,
            taken=self._gateways.taken(),
            drained=self._gateways.drained(),
            confirmed=frozenset(ledger.confirmed),
            draining=ledger.draining or self.stopping,
            published_draining=self._gateways.draining,
            loads=max(1, len(os.sched_getaffinity(0)) // 4),
            notes=ledger.notes,
        )

    def _act(self, action: Action) -> None:
        match action:
            case Fetch(blob=blob):
                self._fetcher.start(blob)
            case StartEngine(key=key, arm=arm):
                self._engines.start(key, arm)
            case StopEngine(key=key, reason=reason):
                self._engines.stop(key, reason)
            case Adopt(fragments=fragments):
                self._ledger.adopt(fragments)
            case Publish():
                self._gateways.publish(action)
            case Confirm():
                self._confirm(action)
            case ForgetBad(digest=digest):
                self._ledger.bad.pop(digest, None)
                self._fetcher.forget(digest)
            case Evict(digest=digest):
                self._fetcher.drop(digest)
            case _:
                assert_never(action)

    def _confirm(self, action: Confirm) -> None:
        took_ms = self._ledger.confirm(action.deployment, action.fence, action.moment == "drained")
        self._confirmations.add(
            Applied(
                incarnation=self._incarnation,
                deployment=action.deployment,
                fence=action.fence,
                moment=action.moment,
                local_ms=took_ms,
            )
        )


def _news(decision: Decision) -> tuple[object, ...]:
    """What the registry waits for: slots that became ready or failed, and what holds at the gateways."""
    slots = tuple(
        (slot.deployment, slot.arm, "coming" if slot.phase in IN_PROGRESS else slot.phase, slot.bad_digest)
        for slot in decision.slots
    )
    return (slots, decision.deployments)


def _words(decision: Decision) -> str:
    """What holds, without its figures: free memory changes with every look and is no news."""
    return re.sub(r"[0-9.]+", "", decision.steady)
