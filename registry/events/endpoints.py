"""Events over HTTP: a page to poll, and a stream."""

from typing import Annotated

from fastapi import APIRouter, Header, Query, Request
from fastapi.responses import StreamingResponse
from starlette.responses import Response

from registry.contract.events import DeploymentPattern, EventPage, TypePattern
from registry.edge.principal import authenticate
from registry.edge.resources import Resources
from registry.edge.roles import READERS
from registry.edge.route import EdgeRoute, transaction
from registry.edge.unit import UnitOfWork, requires
from registry.events import service
from registry.events.room import EventRoom
from registry.events.stream import Stream

router = APIRouter(prefix="/v1/events", tags=["events"], route_class=EdgeRoute)
# Opens its own short transactions: a stream must hold none while it waits.
_streams = APIRouter(prefix="", tags=["events"])

Types = Annotated[list[TypePattern], Query(alias="type", max_length=64)]
Deployments = Annotated[list[DeploymentPattern], Query(alias="deployment", max_length=64)]
After = Annotated[
    str | None, Query(max_length=64, description="The id of the last event seen, such as 1-451")
]


@router.get("", dependencies=[requires(*READERS)])
async def listing(
    unit: UnitOfWork,
    after: After = None,
    type_: Types = [],  # noqa: B006 - FastAPI copies it
    deployment: Deployments = [],  # noqa: B006
    limit: Annotated[int, Query(ge=1, le=1000)] = 100,
) -> EventPage:
    """Oldest first, after the given one. Poll with the `after` of the answer before."""
    wanted = service.filter_for(unit.principal, type_, deployment)
    return await service.page(unit.session, after, limit, wanted)


@_streams.get(
    "/stream",
    response_class=StreamingResponse,
    responses={200: {"content": {"text/event-stream": {}}, "description": "Server-sent events"}},
)
async def stream(
    request: Request,
    after: After = None,
    type_: Types = [],  # noqa: B006
    deployment: Deployments = [],  # noqa: B006
    last_event_id: Annotated[str | None, Header(max_length=64)] = None,
) -> Response:
    """Server-sent events, from now on or behind `Last-Event-ID` (or `after`). It never ends by itself; one
    that was cut goes on by its last id, and nothing is missed or told twice."""
    resources: Resources = request.app.state.resources
    room: EventRoom = request.app.state.events
    async with transaction(request) as unit:
        unit.principal.require(*READERS)
        wanted = service.filter_for(unit.principal, type_, deployment)
        start = await service.place(unit.session, last_event_id or after)

    async def still_allowed() -> None:
        async with resources.database.session() as session, session.begin():
            await authenticate(session, request.headers.get("authorization"))

    return Stream(room.feed, start, wanted, resources.settings.event_heartbeat_s, still_allowed)


router.include_router(_streams)
