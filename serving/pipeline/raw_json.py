"""Raw inputs that are JSON."""

from typing import Any

import orjson

from serving.pipeline.prepared import Cost
from serving.runtimes.errors import InputError

INLINE_BYTES = 16 << 10
"""JSON up to here is read in about a tenth of a millisecond."""


def json_cost(size: int) -> Cost:
    return Cost.INLINE if size <= INLINE_BYTES else Cost.WORKER


def parsed(raw: bytes, example: str) -> Any:
    """Raises InputError, with an `example` of what to send."""
    try:
        return orjson.loads(raw)
    except orjson.JSONDecodeError as error:
        raise InputError("raw input", wanted="JSON", got=str(error), mend=f"send {example}") from error
