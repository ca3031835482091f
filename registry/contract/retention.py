"""What may go: the collector's passes over bytes that nothing refers to."""

from datetime import datetime
from enum import StrEnum

from pydantic import Field

from registry.contract.wire import Command, Wire

SHORTEST_GRACE_S = 3600


class GarbageKind(StrEnum):
    """`dataset`: past its retention; `blob`: verified bytes without a referrer; the others are leavings in
    the object store: of uploads that ended (`staging`), of uploads that never ended (`multipart`), and
    objects that the registry does not know (`orphan`)."""

    DATASET = "dataset"
    BLOB = "blob"
    STAGING = "staging"
    MULTIPART = "multipart"
    ORPHAN = "orphan"


class GarbageCollect(Command):
    """One pass over a part of everything; send `cursor` of its answer for the next one.

    `grace_s`: what is younger stays, whatever refers to it; the registry's setting where it is left out.
    `dry_run` changes nothing.
    """

    dry_run: bool = False
    grace_s: int | None = Field(default=None, ge=SHORTEST_GRACE_S, le=10 * 366 * 86_400)
    cursor: str | None = Field(default=None, max_length=1024)


class Garbage(Wire):
    """`name`: NAME@VERSION, a digest, or a key of the object store. `size` None: unknown."""

    kind: GarbageKind
    name: str
    size: int | None
    since: datetime


class Kept(Wire):
    """A data set that is past its retention and stays, because of its referrers."""

    name: str
    referrers: tuple[str, ...]


class Collected(Wire):
    """What a pass deleted (in a dry run: would delete). `cursor` None: that was the last pass."""

    dry_run: bool
    grace_s: int
    garbage: tuple[Garbage, ...] = ()
    kept: tuple[Kept, ...] = ()
    cursor: str | None = None
