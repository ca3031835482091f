"""The hottest read of the registry as raw ASGI, in front of FastAPI: GET /v1/versions.

A plain search by a token without limits is one statement here, which also asks who it is; where it finds a
version that is out of use, one more. Everything else goes on to the ordinary endpoint, so that there is one
place that says what is wrong with a request.
"""

from typing import Any
from urllib.parse import parse_qsl

import psycopg
from fastapi import FastAPI, Request
from starlette.datastructures import Headers
from starlette.responses import Response
from starlette.types import ASGIApp, Receive, Scope, Send

from registry import problems
from registry.edge.principal import SYSTEM, hash_secret, secret_of
from registry.edge.resources import Resources
from registry.edge.roles import READERS
from registry.errors import Invalid, Unauthenticated
from registry.models import version_search, views
from registry.models.bearer import bearer, bearer_values
from registry.models.found import Found
from registry.models.searches import Asked
from registry.models.version_queries import USES, Use

PATH = "/v1/versions"
LIMIT = 100
LONGEST = {"filter": 2048, "order_by": 256, "page_token": 1024, "limit": 4}
ROLES = [*READERS, "admin"]
_BEARER = bearer("models = '[]' AND environments = '[]'")


class QuickSearches:
    """`inner` answers everything else."""

    def __init__(self, app: FastAPI, inner: ASGIApp) -> None:
        self._app = app
        self._inner = inner

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        response: Response | None = None
        if scope["type"] == "http" and scope["path"] == PATH and scope["method"] == "GET":
            try:
                response = await self._answer(scope)
            except Exception as error:
                response = await problems.answer(Request(scope), error)
        await (self._inner if response is None else response)(scope, receive, send)

    async def _answer(self, scope: Scope) -> Response | None:
        """None: for the ordinary endpoint."""
        resources: Resources = self._app.state.resources
        try:
            asked = _asked(scope["query_string"].decode())
            secret = secret_of(Headers(scope=scope).get("authorization"))
        except (Invalid, Unauthenticated, UnicodeDecodeError):
            return None
        if asked is None:
            return None
        database = resources.database
        async with database.turns.turn(), database.autocommit() as connection:
            made = await _found(connection, asked, hash_secret(secret), prepare=database.prepares)
        if made is None:
            return None
        scope["slipway.route"] = PATH
        scope["slipway.principal"], content = made
        return Response(content, media_type="application/json")


def _asked(query: str) -> Asked | None:
    """None: something about it is not as it should be. Raises Invalid."""
    given = parse_qsl(query, keep_blank_values=True)
    named = dict(given)
    if len(named) < len(given) or any(len(value) > LONGEST.get(name, -1) for name, value in given):
        return None
    limit = named.get("limit", str(LIMIT))
    if not (limit.isascii() and limit.isdigit() and 1 <= int(limit) <= 1000):
        return None
    return Asked.of(named.get("filter"), named.get("order_by"), named.get("page_token"), int(limit))


def statement(asked: Asked, secret_hash: bytes) -> tuple[str, dict[str, Any]]:
    """Who asks, then `Found`. Without a bearer the page is not even looked for, and there is no row."""
    page, found = version_search.statement(asked.terms, asked.order, asked.after, asked.limit, ())
    sql = (
        f"{_BEARER} SELECT bearer.name, p.* FROM bearer LEFT JOIN LATERAL ({page}) p ON true"  # noqa: S608
        f" {version_search.sorting(asked.order, 'p')}"
    )
    return sql, found | bearer_values(secret_hash, ROLES)


async def _found(
    connection: psycopg.AsyncConnection[Any], asked: Asked, secret_hash: bytes, *, prepare: bool
) -> tuple[str, bytes] | None:
    """Who asks, and the page. None: who asks may not, or not without a closer look."""
    # Not prepared: the plan depends on what is searched for.
    found = await connection.execute(*statement(asked, secret_hash), prepare=False)
    rows = await found.fetchall()
    if not rows:
        return None
    shown = [Found._make(row[1:]) for row in rows] if rows[0][1] is not None else []
    retired = asked.retired(shown)
    uses: list[Use] = []
    if retired:
        used = await connection.execute(USES, {"ids": list(retired)}, prepare=prepare)
        uses = [Use.of(*row) for row in await used.fetchall()]
    return rows[0][0], asked.page(shown, views.warned(retired, uses, SYSTEM))
