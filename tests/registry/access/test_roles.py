"""Who may call what: every route, every role. A route that is not in the table fails the test."""

import asyncio
from collections.abc import Mapping

import httpx
import pytest

from registry.client import access
from registry.contract.tokens import Role, TokenCreate
from tests.registry.access.walking import Route, routes, status_of
from tests.registry.conftest import Registry
from tests.registry.nodes.agents import enrol

V, P, B, R, A, N = Role.VIEWER, Role.PUBLISHER, Role.BUILDER, Role.RELEASER, Role.APPROVER, Role.NODE
NOBODY: frozenset[Role] = frozenset()
"""Besides admins, who may everything that is no node's own affair."""
PEOPLE = frozenset({V, P, R, A})
READERS = PEOPLE | {B}
EVERYBODY = READERS | {N}
PUBLIC = None
"""Without any token."""

Allowed = frozenset[Role] | None

TABLE: Mapping[str, Allowed] = {
    "GET /healthz": PUBLIC,
    "GET /readyz": PUBLIC,
    "GET /metrics": PUBLIC,
    # Who one is, tokens, audit.
    "GET /v1/whoami": EVERYBODY,
    "POST /v1/sessions": READERS,
    "POST /v1/sessions/end": EVERYBODY,
    "GET /v1/tokens": NOBODY,
    "POST /v1/tokens": NOBODY,
    "POST /v1/tokens/{token}/rotate": NOBODY,
    "POST /v1/tokens/{token}/revoke": NOBODY,
    "GET /v1/audit": PEOPLE,
    "GET /v1/audit/serving": PEOPLE,
    "GET /v1/audit/export": PEOPLE,
    # Models, versions, lineage.
    "GET /v1/models": READERS,
    "POST /v1/models": frozenset({P}),
    "GET /v1/models/{model}": READERS,
    "PATCH /v1/models/{model}": frozenset({P}),
    "DELETE /v1/models/{model}": frozenset({P}),
    "GET /v1/models/{model}/aliases": READERS,
    "GET /v1/models/{model}/aliases/{alias}": READERS,
    "GET /v1/models/{model}/aliases/{alias}/history": READERS,
    "PUT /v1/models/{model}/aliases/{alias}": frozenset({P, R}),
    "DELETE /v1/models/{model}/aliases/{alias}": frozenset({P, R}),
    "GET /v1/models/{model}/versions": READERS,
    "POST /v1/models/{model}/versions": frozenset({P}),
    "GET /v1/models/{model}/versions/{number}": READERS,
    "DELETE /v1/models/{model}/versions/{number}": frozenset({P}),
    "POST /v1/models/{model}/versions/{number}/seal": frozenset({P}),
    "POST /v1/models/{model}/versions/{number}/archive": frozenset({P}),
    "POST /v1/models/{model}/versions/{number}/restore": frozenset({P}),
    "POST /v1/models/{model}/versions/{number}/quarantine": frozenset({P, R}),
    "GET /v1/models/{model}/versions/{number}/metrics": READERS,
    "POST /v1/models/{model}/versions/{number}/metrics": frozenset({P, B}),
    "GET /v1/versions": READERS,
    "GET /v1/lineage": READERS,
    "GET /v1/capacity": READERS,
    # Bytes and data sets.
    "POST /v1/uploads": frozenset({P, B}),
    "GET /v1/uploads/{upload}": frozenset({P, B}),
    "POST /v1/uploads/{upload}/complete": frozenset({P, B}),
    "POST /v1/uploads/{upload}/abort": frozenset({P, B}),
    "GET /v1/blobs/{digest}": EVERYBODY,
    "GET /v1/blobs/{digest}/meta": EVERYBODY,
    "DELETE /v1/blobs/{digest}": NOBODY,
    "POST /v1/gc": NOBODY,
    "GET /v1/datasets": READERS,
    "POST /v1/datasets": frozenset({P, B}),
    "GET /v1/datasets/{name}/versions/{version}": READERS,
    "PATCH /v1/datasets/{name}/versions/{version}": frozenset({P}),
    "DELETE /v1/datasets/{name}/versions/{version}": frozenset({P}),
    # Builds and the workers' routes.
    "GET /v1/builds": READERS,
    "POST /v1/builds": frozenset({P}),
    "GET /v1/builds/{build}": READERS,
    "GET /v1/builds/{build}/log": READERS,
    "POST /v1/builds/{build}/cancel": frozenset({P}),
    "POST /v1/builds/{build}/retry": frozenset({P}),
    "PUT /v1/builds/{build}/steps": frozenset({B}),
    "PUT /v1/builds/{build}/engines": frozenset({B}),
    "POST /v1/builds/{build}/finish": frozenset({B}),
    "GET /v1/cached-steps/{key}": frozenset({B}),
    "PUT /v1/cached-steps/{key}": frozenset({B}),
    "GET /v1/engines": READERS,
    "GET /v1/engines/{engine}": READERS,
    "GET /v1/arms/{arm}": EVERYBODY,
    "GET /v1/tasks/{task}": READERS,
    "POST /v1/tasks/{task}/claim": frozenset({B}),
    "POST /v1/tasks/{task}/renew": frozenset({B}),
    "POST /v1/tasks/{task}/log": frozenset({B}),
    "POST /v1/tasks/{task}/verified": frozenset({B}),
    # Nodes. A one-time token is no token: enrolling asks for none of ours.
    "POST /v1/enrolments": frozenset({R}),
    "GET /v1/enrolments": frozenset({R}),
    "DELETE /v1/enrolments/{enrolment}": frozenset({R}),
    "POST /v1/nodes": PUBLIC,
    "GET /v1/nodes": READERS,
    "GET /v1/nodes/{node}": EVERYBODY,
    "POST /v1/nodes/{node}/drain": frozenset({R}),
    "POST /v1/nodes/{node}/undrain": frozenset({R}),
    "GET /v1/nodes/{node}/assignment": frozenset({N}),
    "POST /v1/nodes/{node}/reports": frozenset({N}),
    "POST /v1/nodes/{node}/applied": frozenset({N}),
    # Deployments, releases, rollbacks.
    "GET /v1/deployments": READERS,
    "POST /v1/deployments": frozenset({R}),
    "GET /v1/deployments/{environment}/{name}": READERS,
    "PATCH /v1/deployments/{environment}/{name}": frozenset({R}),
    "GET /v1/deployments/{environment}/{name}/status": READERS,
    "GET /v1/deployments/{environment}/{name}/nodes": READERS,
    "GET /v1/deployments/{environment}/{name}/drift": READERS,
    "GET /v1/deployments/{environment}/{name}/routes": READERS,
    "GET /v1/deployments/{environment}/{name}/served": READERS,
    "POST /v1/deployments/{environment}/{name}/pin": frozenset({R}),
    "POST /v1/deployments/{environment}/{name}/unpin": frozenset({R}),
    "POST /v1/deployments/{environment}/{name}/promote": frozenset({R}),
    "POST /v1/deployments/{environment}/{name}/rollback": frozenset({R}),
    "GET /v1/deployments/{environment}/{name}/releases": READERS,
    "GET /v1/deployments/{environment}/{name}/releases/{number}": READERS,
    "GET /v1/deployments/{environment}/{name}/releases/{number}/explain": READERS,
    "POST /v1/deployments/{environment}/{name}/releases/{number}/advance": frozenset({R}),
    "POST /v1/deployments/{environment}/{name}/releases/{number}/pause": frozenset({R}),
    "POST /v1/deployments/{environment}/{name}/releases/{number}/resume": frozenset({R}),
    "POST /v1/deployments/{environment}/{name}/releases/{number}/abort": frozenset({R}),
    # Which of the two, the deployment's policy says; see releases/test_approvals.
    "POST /v1/deployments/{environment}/{name}/releases/{number}/approve": frozenset({A, R}),
    "POST /v1/deployments/{environment}/{name}/releases/{number}/withdraw": frozenset({A, R}),
    "POST /v1/deployments/{environment}/{name}/releases/{number}/reject": frozenset({A, R}),
    "GET /v1/deployments/{environment}/{name}/rollbacks": READERS,
    "GET /v1/rollbacks/{rollback}": READERS,
    "POST /v1/rollbacks/{rollback}/notes": frozenset({R}),
    # Events.
    "GET /v1/events": READERS,
    "GET /v1/events/stream": READERS,
    "POST /v1/webhooks": frozenset({R}),
    "GET /v1/webhooks": frozenset({R}),
    "GET /v1/webhooks/{webhook}": frozenset({R}),
    "PATCH /v1/webhooks/{webhook}": frozenset({R}),
    "DELETE /v1/webhooks/{webhook}": frozenset({R}),
    "POST /v1/webhooks/{webhook}/pause": frozenset({R}),
    "POST /v1/webhooks/{webhook}/resume": frozenset({R}),
    "POST /v1/webhooks/{webhook}/rotate": frozenset({R}),
    "POST /v1/webhooks/{webhook}/test": frozenset({R}),
    "POST /v1/webhooks/{webhook}/replay": frozenset({R}),
    "GET /v1/webhooks/{webhook}/deliveries": frozenset({R}),
    "POST /v1/webhooks/{webhook}/deliveries/{event}/replay": frozenset({R}),
    "POST /v1/mlflow/versions": frozenset({P}),
    # What MLflow's clients call.
    **{
        f"{method} /api/2.0/mlflow{tail}": READERS
        for tail in ("/{path:path}", "-artifacts/{path:path}")
        for method in ("GET", "POST", "PUT", "PATCH", "DELETE")
    },
    "GET /api/2.0/mlflow-artifacts/artifacts": READERS,
    "GET /api/2.0/mlflow-artifacts/artifacts/{path:path}": READERS,
    "PUT /api/2.0/mlflow-artifacts/artifacts/{path:path}": frozenset({P}),
    "DELETE /api/2.0/mlflow-artifacts/artifacts/{path:path}": frozenset({P}),
    "POST /api/2.0/mlflow/registered-models/create": frozenset({P}),
    "GET /api/2.0/mlflow/registered-models/get": READERS,
    "GET /api/2.0/mlflow/registered-models/search": READERS,
    "PATCH /api/2.0/mlflow/registered-models/update": frozenset({P}),
    "POST /api/2.0/mlflow/registered-models/rename": frozenset({P}),
    "DELETE /api/2.0/mlflow/registered-models/delete": frozenset({P}),
    "GET /api/2.0/mlflow/registered-models/get-latest-versions": READERS,
    "POST /api/2.0/mlflow/registered-models/get-latest-versions": READERS,
    "POST /api/2.0/mlflow/registered-models/set-tag": frozenset({P}),
    "DELETE /api/2.0/mlflow/registered-models/delete-tag": frozenset({P}),
    "GET /api/2.0/mlflow/registered-models/alias": READERS,
    "POST /api/2.0/mlflow/registered-models/alias": frozenset({P, R}),
    "DELETE /api/2.0/mlflow/registered-models/alias": frozenset({P, R}),
    "POST /api/2.0/mlflow/model-versions/create": frozenset({P}),
    "GET /api/2.0/mlflow/model-versions/get": READERS,
    "GET /api/2.0/mlflow/model-versions/search": READERS,
    "GET /api/2.0/mlflow/model-versions/get-download-uri": READERS,
    "PATCH /api/2.0/mlflow/model-versions/update": frozenset({P}),
    "POST /api/2.0/mlflow/model-versions/transition-stage": frozenset({P}),
    "DELETE /api/2.0/mlflow/model-versions/delete": frozenset({P}),
    "POST /api/2.0/mlflow/model-versions/set-tag": frozenset({P}),
    "DELETE /api/2.0/mlflow/model-versions/delete-tag": frozenset({P}),
}


def test_every_route_is_in_the_table() -> None:
    found = {str(route) for route in routes()}
    assert sorted(found - TABLE.keys()) == [], "say in TABLE who may call these"
    assert sorted(TABLE.keys() - found) == [], "these are gone"


@pytest.mark.timeout(600)  # more than a thousand requests
async def test_every_role_may_do_what_the_table_says_and_nothing_else(registry: Registry) -> None:
    node = await enrol(registry)
    secrets: dict[Role | None, str | None] = {None: None, Role.NODE: node.token}
    for role in (*READERS, Role.ADMIN):
        made = await registry.client(access.create_token(TokenCreate(name=role, roles=(role,))))
        secrets[role] = made.secret
    wrong: list[str] = []
    async with httpx.AsyncClient(base_url=registry.url, trust_env=False, timeout=30) as http:

        async def ask(route: Route, role: Role | None) -> None:
            status, text = await status_of(http, route, secrets[role], {"node": node.node})
            want = _wanted(TABLE[str(route)], role)
            # A node's token is limited to its environment: what it can't see is not there for it.
            if role is Role.NODE and (status, want) == (404, 403):
                return
            if (status if status in (401, 403) else 200) != want or status >= 500:
                wrong.append(f"{route} as {role}: {status}, not {want}; {text[:200]}")

        for route in routes():
            await asyncio.gather(*(ask(route, role) for role in secrets))
    assert wrong == []


def _wanted(allowed: Allowed, role: Role | None) -> int:
    """401, 403, or 200 for whatever else a permitted caller is told."""
    if allowed is PUBLIC:
        return 200
    if role is None:
        return 401
    return 200 if role is Role.ADMIN or role in allowed else 403


async def test_a_node_speaks_for_itself_alone(registry: Registry) -> None:
    one, other = await enrol(registry, "one"), await enrol(registry, "other")
    async with httpx.AsyncClient(base_url=registry.url, trust_env=False, timeout=30) as http:
        for route in routes():
            if "node" in route.parameters and Role.NODE in (TABLE[str(route)] or ()):
                for name in (other.node, "nod_none"):
                    status, _ = await status_of(http, route, one.token, {"node": name})
                    assert status in (403, 404), f"{route} of {name}"
