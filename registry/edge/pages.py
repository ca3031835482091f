"""Pages of lists: bounded limits, and opaque tokens that hold the key of the last item."""

import base64
import hashlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Annotated, Any, TypeVar

import orjson
from fastapi import Query
from pydantic import BaseModel

from registry.contract.pages import Page
from registry.errors import Invalid

R = TypeVar("R")
T = TypeVar("T", bound=BaseModel)
K = TypeVar("K", str, int)
Part = str | int | float | datetime

Limit = Annotated[int, Query(ge=1, le=1000, description="Items of a page")]
PageToken = Annotated[str | None, Query(max_length=1024, description="next_page_token of the page before")]


def after(page_token: str | None, kind: type[K]) -> K | None:
    """The key behind which the page begins; None: from the start. Raises Invalid."""
    if page_token is None:
        return None
    key = _opened(page_token)
    if type(key) is not kind:
        raise _foreign()
    return key


def page(rows: Sequence[R], limit: int, view: Callable[[R], T], key: Callable[[R], str | int]) -> Page[T]:
    """A page of `rows`, of which one more than `limit` was asked for."""
    items = tuple(view(row) for row in rows[:limit])
    more = len(rows) > limit
    return Page(items=items, next_page_token=_sealed(key(rows[limit - 1])) if more else None)


@dataclass(frozen=True)
class Cursor:
    """Where a page of one search begins. `kinds`: types of the parts of its order's key.

    A token is bound to the search: with another filter or order its key would mean another place, and items
    would be skipped or told twice.
    """

    bound: str
    kinds: tuple[type[Part], ...]

    @classmethod
    def of(cls, *search: object, kinds: tuple[type[Part], ...]) -> "Cursor":
        """`search`: all that decides which items there are, and in which order."""
        return cls(hashlib.sha256(repr(search).encode()).hexdigest()[:16], kinds)

    def after(self, page_token: str | None) -> tuple[Any, ...] | None:
        """The key behind which the page begins; None: from the start. Raises Invalid."""
        if page_token is None:
            return None
        found = _opened(page_token)
        if not isinstance(found, list) or len(found) != len(self.kinds) + 1 or found[0] != self.bound:
            raise _foreign()
        return tuple(_part(part, kind) for part, kind in zip(found[1:], self.kinds, strict=True))

    def page(self, items: Sequence[T], more: bool, last: tuple[Part, ...] | None) -> Page[T]:
        """A page of `items`; `last` is the last one's key, needed where there are more."""
        token = self.token(last) if more and last is not None else None
        return Page(items=tuple(items), next_page_token=token)

    def token(self, last: Sequence[Part]) -> str:
        """For the page behind the item with this key."""
        return _sealed([self.bound, *last])


def _part(part: object, kind: type[Part]) -> Part:
    if kind is datetime and isinstance(part, str):
        try:
            moment = datetime.fromisoformat(part)
        except ValueError:
            raise _foreign() from None
        if moment.tzinfo is not None:
            return moment
    elif type(part) is kind and not isinstance(part, datetime):
        return part
    raise _foreign()


def _sealed(key: object) -> str:
    return base64.urlsafe_b64encode(orjson.dumps(key)).decode()


def _opened(page_token: str) -> object:
    try:
        return orjson.loads(base64.b64decode(page_token.encode(), b"-_", validate=True))
    except ValueError:
        return None


def _foreign() -> Invalid:
    return Invalid(
        "page_token was not made by this list",
        "send next_page_token of the page before with the same filter and order, or none to begin",
    )
