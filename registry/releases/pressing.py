"""The two routes of the worst night: press rollback, and read its receipt, waiting for the last node.

They are not `EdgeRoute`s: waiting comes after the commit and holds no session.
"""

import asyncio
import time
from typing import Annotated

from fastapi import APIRouter, Query, Request

from registry.contract.releases import Receipt, RollBack
from registry.contract.tokens import Role
from registry.edge.roles import READERS
from registry.edge.route import transaction
from registry.edge.sent import SentRoute
from registry.releases import receipts
from registry.releases.rollback import pressed_in_vain, roll_back

router = APIRouter(prefix="/v1", tags=["rollback"], route_class=SentRoute)

FIRST_PAUSE_S = 0.01
LONGEST_PAUSE_S = 0.1


@router.post("/deployments/{environment}/{name}/rollback")
async def press(request: Request, environment: str, name: str, body: RollBack | None = None) -> Receipt:
    """Back to the last good version, from any state, and automation off. Needs no key and no If-Match.

    Pressed again without `to`, it answers with the first one's receipt (`already`) and changes nothing.
    """
    asked = body or RollBack()
    async with transaction(request) as unit:
        unit.principal.require(Role.RELEASER)
        pressed = await roll_back(unit, environment, name, asked, automatic=False)
        if pressed.already:
            await pressed_in_vain(unit, pressed.rollback_id)
    return await _awaited(request, pressed.rollback_id, asked.wait or 0, already=pressed.already)


@router.get("/rollbacks/{rollback}")
async def receipt(
    request: Request, rollback: str, wait: Annotated[float | None, Query(ge=0, le=30)] = None
) -> Receipt:
    """The permanent receipt. With `wait` the answer comes when every node confirmed or the time is over."""
    return await _awaited(request, rollback, wait or 0, already=False)


async def _awaited(request: Request, rollback_id: str, wait_s: float, *, already: bool) -> Receipt:
    deadline = time.monotonic() + wait_s
    pause = FIRST_PAUSE_S
    while True:
        async with transaction(request) as unit:
            unit.principal.require(*READERS)
            found = await receipts.receipt(unit, rollback_id, already=already)
        if found.final or found.all_drained or time.monotonic() >= deadline:
            return found
        await asyncio.sleep(min(pause, max(0.0, deadline - time.monotonic())))
        pause = min(LONGEST_PAUSE_S, pause * 1.5)
