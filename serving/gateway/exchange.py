"""What goes in and out of `handle`: one request's head, one response. No web framework in between."""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Protocol

import orjson

Header = tuple[bytes, bytes]

JSON = b"application/json"
PROBLEM = b"application/problem+json"


class Connection(Protocol):
    """The caller's connection: `on_lost` is called once when it closes before the response."""

    on_lost: Callable[[], None] | None


@dataclass(slots=True)
class Head:
    """Header names are lower-case; of several with one name the last counts. `started`: perf_counter()."""

    method: str
    path: str
    headers: dict[bytes, bytes]
    started: float
    connection: Connection | None = None
    client: str = ""


@dataclass(slots=True)
class Response:
    status: int
    body: bytes
    media_type: bytes = JSON
    headers: list[Header] = field(default_factory=list)


def json_response(document: object, status: int = 200) -> Response:
    return Response(status, orjson.dumps(document))
