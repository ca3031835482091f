"""Raw ASGI, outermost: every request is timed, counted, and logged in one line."""

import logging
import time

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from registry.logs import ACCESS
from registry.metrics import Requests

UNMATCHED = "unmatched"
# The caller went before there was an answer.
GONE = 499
# A thousand nodes ask several hundred times a second; what goes well there is counted, and logged on DEBUG.
_FREQUENT = ("/v1/nodes/{node}/", "/healthz", "/readyz", "/metrics")


class Observe:
    """Reads what the inner layers left in the scope: `slipway.request_id`, `.principal`, `.route`."""

    def __init__(self, app: ASGIApp, requests: Requests) -> None:
        self._app = app
        self._requests = requests

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        began = time.perf_counter()
        status = GONE

        async def noting(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
            await send(message)

        try:
            await self._app(scope, receive, noting)
        except Exception:
            status = 500
            raise
        finally:
            self._note(scope, status, time.perf_counter() - began)

    def _note(self, scope: Scope, status: int, seconds: float) -> None:
        route = route_of(scope)
        method = scope["method"]
        self._requests.add(method, route, status, seconds)
        frequent = status < 400 and route.startswith(_FREQUENT)
        level = logging.DEBUG if frequent else logging.INFO
        if ACCESS.isEnabledFor(level):
            ACCESS.log(
                level,
                "%s %s %d",
                method,
                route,
                status,
                extra={
                    "request_id": scope.get("slipway.request_id"),
                    "method": method,
                    "route": route,
                    "status": status,
                    "duration_ms": round(seconds * 1000, 1),
                    "principal": scope.get("slipway.principal"),
                },
            )


def route_of(scope: Scope) -> str:
    """The template (`/v1/models/{model}`), never the path: that would be a label without end."""
    given = scope.get("slipway.route")
    if given is not None:
        return str(given)
    # A router within a router: only the context knows the whole template.
    matched = scope.get("fastapi", {}).get("effective_route_context") or scope.get("route")
    return getattr(matched, "path_format", None) or UNMATCHED
