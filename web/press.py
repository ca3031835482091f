"""Pressing "roll back" for what was read: what changed since then decides what the press still means."""

import time
from dataclasses import dataclass
from datetime import UTC, datetime

from registry.client import ApiError, deployments, releases
from registry.contract.deployments import Deployment
from registry.contract.problems import ProblemType
from registry.contract.releases import Receipt, Release, RollBack
from web.registry import Asker
from web.views.naming import full
from web.views.offer import default_target
from web.views.words import plain_clock

TOO_SOON_MS = 400
ATTEMPTS = 5


@dataclass(frozen=True, slots=True)
class Wish:
    """What the form said. `explicit`: `target` was chosen by hand."""

    target: str
    explicit: bool
    key: str


@dataclass(frozen=True, slots=True)
class Pressed:
    """`already`: somebody was first, and this press changed nothing."""

    receipt: str
    already: bool


@dataclass(frozen=True, slots=True)
class AskAgain:
    """Nothing was changed; `why` is said above the page, which is shown once more."""

    why: str


def new_key(generation: int) -> str:
    """Made with each page: when it was drawn (ms since 1970, hexadecimal), and for which route.

    It makes a form idempotent: a rollback that came after this generation is the one that was asked for.
    """
    return f"{time.time_ns() // 1_000_000:x}-{generation}"


def read_key(key: str) -> tuple[float, int] | None:
    """How many ms ago the page was drawn, and the generation seen. None: the key is not one of ours."""
    moment, _, generation = key.partition("-")
    try:
        return time.time_ns() / 1_000_000 - int(moment, 16), int(generation)
    except ValueError:
        return None


async def press(ask: Asker, ref: str, wish: Wish) -> Pressed | AskAgain:
    """Raises SignedOut, and ApiError where the registry refuses.

    A step that was taken since the page was drawn never bounces the press; another target does.
    """
    drawn = read_key(wish.key)
    if drawn is None:
        return AskAgain("The form was not complete. Nothing was changed; press again.")
    age, seen = drawn
    if 0 <= age < TOO_SOON_MS:
        return AskAgain(
            f"You pressed {age / 1000:.1f} s after this page appeared, too soon to have read it. "
            "Nothing was changed; press again."
        )
    for attempt in range(ATTEMPTS):
        deployment = await ask.must(deployments.get(ref))
        receipt = await _newest(ask, ref)
        if receipt is not None and receipt.generation > seen:
            return await _second(ask, deployment, wish, receipt)
        moved = await _another_target(ask, deployment, wish)
        if moved is not None:
            return moved
        generation = _generation(deployment) if attempt < ATTEMPTS - 1 else None
        try:
            made = await ask.must(
                releases.roll_back(ref, RollBack(to=wish.target, expected_generation=generation))
            )
        except ApiError as error:
            if error.kind != ProblemType.CONFLICT:
                raise
            if generation is None or generation == _generation(await ask.must(deployments.get(ref))):
                raise
        else:
            return Pressed(made.id, made.already)
    raise AssertionError("the last attempt names no generation")


async def _newest(ask: Asker, ref: str) -> Receipt | None:
    return next(iter((await ask.must(releases.receipts(ref, limit=1))).items), None)


def _generation(deployment: Deployment) -> int:
    return deployment.requested.fence.generation if deployment.requested else 0


async def _second(ask: Asker, deployment: Deployment, wish: Wish, receipt: Receipt) -> Pressed | AskAgain:
    """Somebody rolled back after the page was drawn."""
    if wish.explicit and receipt.to_arm.id != wish.target:
        who = "Slipway itself" if receipt.automatic else receipt.asked_by
        return AskAgain(
            f"{who} rolled back to {full(receipt.to_arm)} at "
            f"{plain_clock(receipt.asked_at, datetime.now(UTC))}, after this page was drawn. "
            "Nothing was changed by your press; press again if you still want the version named here."
        )
    body = RollBack(to=receipt.to_arm.id, expected_generation=_generation(deployment))
    try:
        # Changes nothing, and puts into the audit trail that somebody else pressed, too.
        return Pressed((await ask.must(releases.roll_back(deployment.ref, body))).id, already=True)
    except ApiError as error:
        if error.kind != ProblemType.CONFLICT:
            raise
        return Pressed(receipt.id, already=True)


async def _another_target(ask: Asker, deployment: Deployment, wish: Wish) -> AskAgain | None:
    if wish.explicit:
        return None
    active: Release | None = None
    if deployment.active_release is not None:
        active = await ask.must(releases.get(deployment.ref, deployment.active_release))
    target = default_target(deployment, active)
    if target is not None and target.id == wish.target:
        return None
    return AskAgain(
        "Meanwhile the release changed, and rolling back would lead to another version than the one you "
        "read. Nothing was changed; read again, then press."
    )
