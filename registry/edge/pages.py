"""Pages of lists: bounded limits, and opaque tokens that hold the key of the last item."""

import base64
from collections.abc import Callable, Sequence
from typing import Annotated, TypeVar

import orjson
from fastapi import Query
from pydantic import BaseModel

from registry.contract.pages import Page
from registry.errors import Invalid

R = TypeVar("R")
T = TypeVar("T", bound=BaseModel)
K = TypeVar("K", str, int)

Limit = Annotated[int, Query(ge=1, le=1000, description="Items of a page")]
PageToken = Annotated[str | None, Query(max_length=1024, description="next_page_token of the page before")]


def after(page_token: str | None, kind: type[K]) -> K | None:
    """The key behind which the page begins; None: from the start. Raises Invalid."""
    if page_token is None:
        return None
    try:
        key = orjson.loads(base64.urlsafe_b64decode(page_token.encode()))
    except ValueError:
        key = None
    if not isinstance(key, kind):
        raise Invalid(
            "page_token was not made by this list",
            "send next_page_token of the page before, or none to begin",
        )
    return key


def page(rows: Sequence[R], limit: int, view: Callable[[R], T], key: Callable[[R], str | int]) -> Page[T]:
    """A page of `rows`, of which one more than `limit` was asked for."""
    items = tuple(view(row) for row in rows[:limit])
    more = len(rows) > limit
    token = base64.urlsafe_b64encode(orjson.dumps(key(rows[limit - 1]))).decode() if more else None
    return Page(items=items, next_page_token=token)
