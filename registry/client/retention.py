"""Calls on what may go: the collector. Deletions are with the things that they delete."""

from registry.client.call import Call, path
from registry.contract.retention import Collected, GarbageCollect


def collect(body: GarbageCollect) -> Call[Collected]:
    """One pass; repeat it with `cursor` of the answer until that is None."""
    return Call("POST", path("gc"), Collected, body, timeout_s=120)
