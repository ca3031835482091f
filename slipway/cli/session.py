"""The client of this command line, and how lists are read to their end."""

from collections.abc import Callable, Iterator
from typing import TypeVar

from registry.client.call import Call
from registry.contract.pages import Page
from slipway.cli.output import hint
from slipway.client import Client

T = TypeVar("T")

_client: Client | None = None


def client() -> Client:
    """From the environment; one per command."""
    global _client
    if _client is None:
        _client = Client(tell=hint)
    return _client


def every(page: Callable[[str | None], Call[Page[T]]], limit: int) -> Iterator[T]:
    """Items over all pages, `limit` at most."""
    token: str | None = None
    left = limit
    while left > 0:
        found = client().call(page(token))
        yield from found.items[:left]
        left -= len(found.items)
        token = found.next_page_token
        if token is None:
            return


def pairs(given: list[str]) -> dict[str, str]:
    """`k=v` options. Raises ValueError."""
    made: dict[str, str] = {}
    for text in given:
        name, equals, value = text.partition("=")
        if not equals or not name:
            raise ValueError(f"{text!r} is not NAME=VALUE")
        made[name] = value
    return made
