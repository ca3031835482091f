"""Which entries of the audit trail are wanted, and which of them the caller may see."""

from dataclasses import dataclass
from datetime import datetime
from typing import Annotated

from fastapi import Query

from registry.errors import Invalid

ACTIONS = "An action, such as release.promote, or a family of them with a dot at its end: release."


@dataclass(frozen=True)
class Filter:
    """`subject` is a prefix; `action` too where it ends with a dot. `since` is included, `until` is not."""

    subject: str | None = None
    actor: str | None = None
    action: str | None = None
    since: datetime | None = None
    until: datetime | None = None


def wanted(
    subject: Annotated[str | None, Query(max_length=256, description="A prefix: deployment:prod/")] = None,
    actor: Annotated[str | None, Query(max_length=128)] = None,
    action: Annotated[str | None, Query(max_length=128, description=ACTIONS)] = None,
    since: Annotated[datetime | None, Query(description="RFC 3339; from this moment on")] = None,
    until: Annotated[datetime | None, Query(description="RFC 3339; before this moment")] = None,
) -> Filter:
    """The filter of a request. Raises Invalid."""
    return Filter(subject, actor, action, zoned("since", since), zoned("until", until))


def zoned(name: str, moment: datetime | None) -> datetime | None:
    """Raises Invalid for a moment that says no time zone."""
    if moment is not None and moment.tzinfo is None:
        raise Invalid(f"`{name}` has no time zone", "write it as RFC 3339, for example 2026-01-31T12:00:00Z")
    return moment
