"""Every route of the registry, and how one asks it with names of one's choice."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import chain

import httpx
from fastapi.routing import iter_route_contexts

from registry.app import ROUTERS
from tests.registry.support import digest_of

# Raw ASGI in front of the app's routers.
RAW = (
    ("GET", "/v1/nodes/{node}/assignment"),
    ("POST", "/v1/nodes/{node}/reports"),
    ("POST", "/v1/nodes/{node}/applied"),
)
# What routes without a transaction of their own need, to get as far as the question who asks.
BODIES: Mapping[str, object] = {
    "/v1/tasks/{task}/verified": {"fence": 1, "digest": digest_of(b""), "size": 0, "etag": "e"},
    "/v1/nodes/{node}/reports": {"incarnation": "i", "seq": 1},
}
NOTHING: Mapping[str, str] = {
    "model": "nothing",
    "name": "nothing",
    "alias": "nothing",
    "environment": "nowhere",
    "number": "1",
    "version": "1",
    "digest": digest_of(b"nothing"),
    "key": digest_of(b"nothing"),
    "arm": f"arm-{'0' * 64}",
    "event": "1-1",
    "path": "inbox/nothing",
}


@dataclass(frozen=True, order=True)
class Route:
    path: str
    method: str

    @property
    def parameters(self) -> frozenset[str]:
        """Names in braces, without Starlette's convertors."""
        parts = self.path.split("{")[1:]
        return frozenset(part.partition("}")[0].partition(":")[0] for part in parts)

    def filled(self, names: Mapping[str, str]) -> str:
        """The path with `names`, and with names of nothing where there is none."""
        made = self.path.replace(":path}", "}")
        for each in self.parameters:
            made = made.replace(f"{{{each}}}", names.get(each, NOTHING.get(each, f"no_{each}")))
        return made

    def __str__(self) -> str:
        return f"{self.method} {self.path}"


def routes() -> list[Route]:
    """All that answers a request; what only describes the API is FastAPI's own."""
    return sorted(set(_routes()))


def _routes() -> Iterator[Route]:
    for context in iter_route_contexts(list(chain.from_iterable(router.routes for router in ROUTERS))):
        for method in (context.methods or set()) - {"HEAD"}:
            assert context.path is not None
            yield Route(context.path, method)
    for method, path in RAW:
        yield Route(path, method)


async def status_of(
    http: httpx.AsyncClient,
    route: Route,
    secret: str | None,
    names: Mapping[str, str] = NOTHING,
    query: Mapping[str, str] | None = None,
    body: object = None,
) -> tuple[int, str]:
    """Status and, where it is not a stream, text of the answer."""
    request = http.build_request(
        route.method,
        route.filled(names),
        params=query,
        json=None if route.method == "GET" else body if body is not None else BODIES.get(route.path, {}),
        headers={} if secret is None else {"authorization": f"Bearer {secret}"},
    )
    answer = await http.send(request, stream=True)
    try:
        if answer.headers.get("content-type", "").startswith("text/event-stream"):
            return answer.status_code, ""
        return answer.status_code, (await answer.aread()).decode()
    finally:
        await answer.aclose()
