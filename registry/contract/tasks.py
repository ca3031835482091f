"""A task: a unit of work that one worker at a time leases. The row is the truth, a message is a nudge."""

from datetime import datetime
from enum import StrEnum
from typing import Annotated, Literal

from pydantic import Field

from registry.contract.identity import Digest
from registry.contract.wire import LARGEST, Whole, Wire


class TaskPhase(StrEnum):
    QUEUED = "queued"
    LEASED = "leased"
    DONE = "done"
    FAILED = "failed"
    CANCELLED = "cancelled"


class Claim(Wire):
    worker: str = Field(min_length=1, max_length=128)


class VerifyOrder(Wire):
    """Read `url`, hash it, finish with what was found. `etag` is sent back as read."""

    kind: Literal["verify"] = "verify"
    upload: str
    digest: Digest
    size: int
    url: str


class BuildOrder(Wire):
    """What to build is read from `GET /v1/builds/{build}`."""

    kind: Literal["build"] = "build"
    build: str


Order = Annotated[VerifyOrder | BuildOrder, Field(discriminator="kind")]


class Lease(Wire):
    """Renew every `lease_s / 3`; every write carries `fence`; a stale fence is refused with 409 `fenced`."""

    task: str
    fence: int
    attempt: int
    lease_s: float
    order: Order


class Fenced(Wire):
    """Proof of the lease, part of every write of a worker."""

    fence: Whole


class LogChunk(Wire):
    """At most 64 KiB of text, in order by `seq` (a repeated one is ignored)."""

    fence: Whole
    seq: int = Field(ge=0, le=LARGEST)
    text: str = Field(max_length=65_536)


class VerifyResult(Wire):
    """What the worker read: its digest, size and the store's ETag."""

    fence: Whole
    digest: Digest
    size: Whole
    etag: str


class Task(Wire):
    id: str
    kind: Literal["verify", "build"]
    queue: str
    phase: TaskPhase
    reason: str
    attempt: int
    worker: str | None
    lease_until: datetime | None
    created_at: datetime
