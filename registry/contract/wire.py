"""The two bases of all wire types, and the digest of a wire value."""

import hashlib
from typing import Annotated, Any

import orjson
from pydantic import BaseModel, ConfigDict, Field


class Wire(BaseModel):
    """What programs exchange: immutable, unknown fields are ignored (an older reader keeps working)."""

    model_config = ConfigDict(frozen=True, extra="ignore")


class Command(BaseModel):
    """What a person asks for: immutable, unknown fields are refused (a typo must not be lost)."""

    model_config = ConfigDict(frozen=True, extra="forbid")


LARGEST = 2**63 - 1

Whole = Annotated[int, Field(ge=-LARGEST - 1, le=LARGEST)]
"""What a 64-bit column holds and every reader of JSON can read: every whole number of a request is one."""


def added(default: Any, **constraints: Any) -> Any:
    """A field that came after 0.1.0. At its default it is left out, so that what was said before it came
    keeps its digest, and a reader that refuses unknown fields meets it only where it says something."""
    return Field(default=default, exclude_if=lambda value: value == default, **constraints)


def canonical_json(value: BaseModel | dict[str, object]) -> bytes:
    """One byte string per value: keys sorted, no spaces, UTF-8. What digests are taken of."""
    plain = value.model_dump(mode="json") if isinstance(value, BaseModel) else value
    return orjson.dumps(plain, option=orjson.OPT_SORT_KEYS)


def sha256_of(value: BaseModel | dict[str, object]) -> str:
    """`sha256-<hex>` of the canonical JSON."""
    return f"sha256-{hashlib.sha256(canonical_json(value)).hexdigest()}"
