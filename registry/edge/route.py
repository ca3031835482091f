"""The route class of every endpoint: session, principal, idempotency and the one commit."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from fastapi import Request, Response

from registry.edge import idempotency
from registry.edge.principal import authenticate
from registry.edge.resources import Resources
from registry.edge.scopes import admit
from registry.edge.sent import Handler, SentRoute
from registry.edge.unit import Unit

_READS = ("GET", "HEAD")


class EdgeRoute(SentRoute):
    """The answer leaves after the commit, never before it. An exception rolls everything back.

    Endpoints that need no token say so with `openapi_extra={"security": []}`.
    """

    def get_route_handler(self) -> Handler:
        handle = super().get_route_handler()
        public = (self.openapi_extra or {}).get("security") == []

        async def at_the_edge(request: Request) -> Response:
            if request.method not in _READS:
                # Before a connection is taken: none is held while a slow sender sends. The request keeps it.
                await request.body()
            async with transaction(request, public) as unit:
                request.state.unit = unit
                return await _answer(request, unit, handle)

        return at_the_edge


@asynccontextmanager
async def transaction(request: Request, public: bool = False) -> AsyncIterator[Unit]:
    """One unit of work: authenticated, committed at the end of the block. No answer waits for its
    `after_commit`.

    Endpoints get theirs from EdgeRoute; only those whose work is too long for one transaction open
    several themselves.
    """
    resources: Resources = request.app.state.resources
    async with resources.database.turns.turn(), resources.database.session() as session:
        unit = Unit(
            session,
            resources,
            request.app.state.identity,
            request_id=request.scope.get("slipway.request_id"),
            via=request.headers.get("x-slipway-via", "API")[:16],
        )
        async with session.begin():
            if request.method in _READS:
                # Each statement sees what is committed when it begins, with or without a transaction around
                # it; without one it is two messages less.
                await session.connection(execution_options={"isolation_level": "AUTOCOMMIT"})
            if not public:
                unit.caller = await authenticate(session, request.headers.get("authorization"))
                request.scope["slipway.principal"] = unit.caller.name
                await admit(session, unit.caller, request.path_params)
            yield unit
    resources.errands.send(unit.after_commit)


async def _answer(request: Request, unit: Unit, handle: Handler) -> Response:
    # Without a token nobody owns a key.
    if request.method in _READS or unit.caller is None:
        return await handle(request)
    key = await idempotency.key_of(request, unit.caller.token_id)
    if key is None:
        return await handle(request)
    kept = await idempotency.replay(unit.session, key)
    if kept is not None:
        return kept
    response = await handle(request)
    if response.status_code < 400 and "no-store" not in response.headers.get("cache-control", ""):
        await idempotency.keep(unit.session, key, response)
    return response
