"""What goes in and out of `handle`: one request's head, one response. No web framework in between."""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Protocol

import orjson

Header = tuple[bytes, bytes]

JSON = b"application/json"
PROBLEM = b"application/problem+json"

CLOSE: Header = (b"connection", b"close")
"""The connection ends with this answer."""


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


class Standing:
    """Headers that many answers carry: written once, in `lines`, as they go on the wire."""

    __slots__ = ("headers", "lines")

    def __init__(self, headers: tuple[Header, ...] = ()) -> None:
        self.headers = headers
        self.lines = b"".join(b"%b: %b\r\n" % header for header in headers)


_NONE = Standing()


@dataclass(slots=True)
class Response:
    """`standing` goes out before `headers`."""

    status: int
    body: bytes
    media_type: bytes = JSON
    headers: list[Header] = field(default_factory=list)
    standing: Standing = _NONE


def json_response(document: object, status: int = 200) -> Response:
    return Response(status, orjson.dumps(document))
