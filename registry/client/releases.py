"""Calls on releases and rollbacks."""

from registry.client.call import Call, path, query
from registry.client.deployments import at
from registry.contract.pages import Page
from registry.contract.releases import (
    Promote,
    Receipt,
    ReceiptNote,
    Reject,
    Release,
    RollBack,
    Transition,
)
from registry.contract.verdicts import Explanation


def promote(ref: str, body: Promote) -> Call[Release]:
    """Creates a release by the deployment's policy and starts it when its guards allow."""
    return Call("POST", at(ref, "promote"), Release, body)


def get(ref: str, number: int) -> Call[Release]:
    return Call("GET", at(ref, "releases", number), Release)


def page(ref: str, page_token: str | None = None, limit: int = 100) -> Call[Page[Release]]:
    """Newest first."""
    return Call("GET", at(ref, "releases"), Page[Release], query=query(page_token=page_token, limit=limit))


def approve(ref: str, number: int, body: Transition) -> Call[Release]:
    """Another person's release. The last approval that its policy wants starts it."""
    return Call("POST", at(ref, "releases", number, "approve"), Release, body)


def withdraw(ref: str, number: int, body: Transition) -> Call[Release]:
    """Takes one's own approval back, as long as the release has not started."""
    return Call("POST", at(ref, "releases", number, "withdraw"), Release, body)


def reject(ref: str, number: int, body: Reject) -> Call[Release]:
    """Ends a release that awaits approval."""
    return Call("POST", at(ref, "releases", number, "reject"), Release, body)


def advance(ref: str, number: int, body: Transition) -> Call[Release]:
    """The next step by command, recorded as such."""
    return Call("POST", at(ref, "releases", number, "advance"), Release, body)


def pause(ref: str, number: int, body: Transition) -> Call[Release]:
    return Call("POST", at(ref, "releases", number, "pause"), Release, body)


def resume(ref: str, number: int, body: Transition) -> Call[Release]:
    return Call("POST", at(ref, "releases", number, "resume"), Release, body)


def abort(ref: str, number: int, body: Transition) -> Call[Release]:
    return Call("POST", at(ref, "releases", number, "abort"), Release, body)


def explain(ref: str, number: int) -> Call[Explanation]:
    """Replays the verdict from the stored counters."""
    return Call("GET", at(ref, "releases", number, "explain"), Explanation)


def roll_back(ref: str, body: RollBack) -> Call[Receipt]:
    return Call("POST", at(ref, "rollback"), Receipt, body, timeout_s=30 + (body.wait or 0))


def receipt(rollback: str, wait: float | None = None) -> Call[Receipt]:
    """With `wait` (≤ 30 s) the answer comes when every node confirmed or the time is over."""
    return Call("GET", path("rollbacks", rollback), Receipt, query=query(wait=wait), timeout_s=60)


def receipts(ref: str, page_token: str | None = None, limit: int = 100) -> Call[Page[Receipt]]:
    """Newest first."""
    return Call("GET", at(ref, "rollbacks"), Page[Receipt], query=query(page_token=page_token, limit=limit))


def note(rollback: str, body: ReceiptNote) -> Call[Receipt]:
    return Call("POST", path("rollbacks", rollback, "notes"), Receipt, body)
