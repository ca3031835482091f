"""Lists: one page of items and an opaque token for the next."""

from typing import Generic, TypeVar

from registry.contract.wire import Wire

T = TypeVar("T")


class Page(Wire, Generic[T]):
    items: tuple[T, ...]
    next_page_token: str | None = None
