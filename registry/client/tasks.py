"""Calls of workers on the tasks that they lease."""

from registry.client.call import Call, path
from registry.contract.tasks import Claim, Fenced, Lease, LogChunk, Task, VerifyResult


def get(task: str) -> Call[Task]:
    return Call("GET", path("tasks", task), Task)


def claim(task: str, body: Claim) -> Call[Lease | None]:
    """None: someone else holds it, or it is over. Never an error: wake-ups may come twice."""
    return Call("POST", path("tasks", task, "claim"), Lease | None, body)


def renew(task: str, body: Fenced) -> Call[Task]:
    return Call("POST", path("tasks", task, "renew"), Task, body)


def log(task: str, body: LogChunk) -> Call[None]:
    return Call("POST", path("tasks", task, "log"), None, body)


def finish_verify(task: str, body: VerifyResult) -> Call[Task]:
    """Takes as long as the store needs to copy the bytes to their final key."""
    return Call("POST", path("tasks", task, "verified"), Task, body, timeout_s=960)
