"""Use cases of events: read what was published, by page or from a place on."""

from sqlalchemy.ext.asyncio import AsyncSession

from registry.contract.events import EventId, EventPage, parse_event_id
from registry.edge.principal import Principal
from registry.errors import Gone, Invalid
from registry.events import repository, represent
from registry.events.filters import Filter


def filter_for(principal: Principal, types: list[str], deployments: list[str]) -> Filter:
    """What was asked for, within the scope of the token."""
    return Filter(
        tuple(types),
        tuple(deployments),
        tuple(sorted(principal.environments)),
        tuple(sorted(principal.models)),
    )


async def page(session: AsyncSession, after: str | None, limit: int, wanted: Filter) -> EventPage:
    """From the oldest that is kept where `after` is None. Raises Invalid, Gone."""
    pruned, newest = await repository.bounds(session)
    start = _place(after, pruned, newest) if after is not None else pruned
    rows = await repository.events(session, start, newest, limit, wanted)
    full = len(rows) == limit
    upto = EventId(rows[-1].timeline, rows[-1].number) if full else max(start, newest)
    return EventPage(items=tuple(represent.event(row) for row in rows), after=str(upto))


async def place(session: AsyncSession, after: str | None) -> EventId:
    """Where a stream begins: behind `after`, or at the present where it is None. Raises Invalid, Gone."""
    pruned, newest = await repository.bounds(session)
    return newest if after is None else _place(after, pruned, newest)


def _place(after: str, pruned: EventId, newest: EventId) -> EventId:
    try:
        found = parse_event_id(after)
    except ValueError as error:
        raise Invalid(str(error), "send the id of the last event that you have seen") from error
    if found < pruned:
        raise Gone(
            f"events after {found} up to {pruned} are no longer kept",
            f"go on after {pruned}, and read the present state of what you follow",
        )
    if found > newest:
        raise Invalid(
            f"there is no event {found} yet, the newest is {newest}",
            "is that the id of another registry? begin without one",
        )
    return found
