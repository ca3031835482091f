"""A call is data: what to send and what comes back. Who sends it, and how, is the transport's matter."""

from dataclasses import dataclass, field
from typing import Any, Generic, TypeVar
from urllib.parse import quote

from pydantic import BaseModel, TypeAdapter

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Call(Generic[T]):
    """`if_match` is the revision that the caller has seen. `repeatable`: sending it twice does no harm
    (GET, and every write, since writes carry an idempotency key)."""

    method: str
    path: str
    result: Any
    body: BaseModel | None = None
    query: dict[str, str | int | float | list[str]] = field(default_factory=dict)
    if_match: int | None = None
    timeout_s: float = 30.0
    repeatable: bool = True

    def parse(self, content: bytes) -> T:
        """Raises pydantic.ValidationError when the answer is not what this call promises."""
        if self.result is None:
            return None  # type: ignore[return-value]
        parsed: T = TypeAdapter(self.result).validate_json(content)
        return parsed


def path(*segments: str | int) -> str:
    """`/v1/` and the segments, each quoted."""
    return "/v1/" + "/".join(quote(str(segment), safe="") for segment in segments)


def query(
    **values: str | int | float | list[str] | None,
) -> dict[str, str | int | float | list[str]]:
    """The values that are given; a list is sent as several of one name."""
    return {name: value for name, value in values.items() if value is not None}
