"""Tells the registry of the two moments of a generation, at once, until it took them."""

import asyncio
import logging
import random
from collections import deque

from registry.client import ApiError, AsyncClient, Unreachable, nodes
from registry.contract.nodes import Applied
from registry.contract.routes import Fence

FIRST_PAUSE_S = 0.2
LONGEST_PAUSE_S = 5.0

log = logging.getLogger("agent")


class Confirmations:
    """One sender per deployment, so that its moments arrive in their order and no deployment waits for
    another one's. A moment of an older generation is dropped when a newer one switched."""

    def __init__(self, client: AsyncClient, node: str, may_send: asyncio.Event) -> None:
        """`may_send`: set once the last words of earlier incarnations are told."""
        self._client = client
        self._node = node
        self._may_send = may_send
        self._queues: dict[str, deque[Applied]] = {}
        self._senders: dict[str, asyncio.Task[None]] = {}

    def add(self, moment: Applied) -> None:
        queue = self._queues.setdefault(moment.deployment, deque())
        for waiting in [item for item in queue if moment.fence.supersedes(item.fence)]:
            queue.remove(waiting)
        queue.append(moment)
        sender = self._senders.get(moment.deployment)
        if sender is None or sender.done():
            task = asyncio.create_task(self._send(queue), name=f"confirm {moment.deployment}")
            self._senders[moment.deployment] = task

    async def close(self, grace_s: float) -> None:
        """Send what is left, at most for `grace_s`."""
        senders = [task for task in self._senders.values() if not task.done()]
        if senders:
            _, late = await asyncio.wait(senders, timeout=grace_s)
            for task in late:
                task.cancel()
            await asyncio.gather(*late, return_exceptions=True)

    async def _send(self, queue: deque[Applied]) -> None:
        await self._may_send.wait()
        pause = FIRST_PAUSE_S
        while queue:
            moment = queue[0]
            try:
                await self._client(nodes.applied(self._node, moment))
            except Unreachable as error:
                log.warning("%s %s waits: %s", moment.deployment, _name(moment.fence, moment.moment), error)
            except ApiError as error:
                if error.status < 500 and error.status != 429:
                    log.warning("%s was refused: %s", _name(moment.fence, moment.moment), error)
                    _done(queue, moment)
                    continue
            else:
                _done(queue, moment)
                pause = FIRST_PAUSE_S
                continue
            await asyncio.sleep(pause * (0.5 + random.random()))  # noqa: S311 - jitter is no secret
            pause = min(LONGEST_PAUSE_S, pause * 2)


def _done(queue: deque[Applied], moment: Applied) -> None:
    """A newer generation may have removed it while it was on its way."""
    if queue and queue[0] is moment:
        queue.popleft()


def _name(fence: Fence, moment: str) -> str:
    return f"generation {fence.generation} {moment}"
