"""Uploads: how bytes become content-addressed objects.

Bytes go by presigned part URLs into a staging key, are read back and hashed by a `verify` worker, and only
then copied to their final key. A blob exists once it is verified.
"""

from datetime import datetime
from enum import StrEnum

from pydantic import Field

from registry.contract.identity import Digest
from registry.contract.wire import LARGEST, Command, Wire


class UploadPhase(StrEnum):
    OPEN = "open"
    VERIFYING = "verifying"
    VERIFIED = "verified"
    REJECTED = "rejected"
    ABORTED = "aborted"


class UploadCreate(Command):
    digest: Digest
    size: int = Field(ge=0, le=LARGEST)


class Part(Wire):
    """`url` is None once the part has arrived."""

    number: int = Field(ge=1)
    offset: int = Field(ge=0)
    size: int = Field(ge=0)
    url: str | None = None


class Upload(Wire):
    """`exists`: the blob is there already, nothing is sent. Part URLs are fresh with every GET."""

    id: str | None
    digest: Digest
    size: int
    exists: bool
    phase: UploadPhase
    reason: str = ""
    part_size: int = 0
    parts: tuple[Part, ...] = ()
    expires_at: datetime | None = None


class Blob(Wire):
    digest: Digest
    size: int
    verified_at: datetime
