"""Every route that changes something writes an audit entry; those that don't, say here why.

The first test reads the source: from each endpoint it follows the calls until one writes an entry. The
second one looks at what is written: what was before, and what is after.
"""

import ast
import inspect
import textwrap
from collections.abc import Callable, Iterator, Mapping
from itertools import chain
from types import ModuleType
from typing import Any

from fastapi.routing import iter_route_contexts
from sqlalchemy import TextClause

from registry.app import ROUTERS
from registry.client import access, deployments, models, nodes
from registry.contract.deployments import DeploymentCreate, DeploymentPatch, Pin
from registry.contract.tokens import Role, TokenCreate, TokenRotate
from registry.contract.versions import ModelPatch
from tests.registry.conftest import Registry
from tests.registry.nodes.agents import enrol
from tests.registry.support import make_model

WRITES = frozenset({"POST", "PUT", "PATCH", "DELETE"})
NOT_AUDITED: Mapping[str, str] = {
    # Workers' leases: each move of a task is in the journal, its result in the build's or upload's entry.
    "POST /v1/tasks/{task}/renew": "a heartbeat",
    "POST /v1/tasks/{task}/log": "a log",
    "PUT /v1/builds/{build}/steps": "a report of a running build; its end is audited",
    "PUT /v1/cached-steps/{key}": "a cache",
    # What MLflow's clients ask for and is answered with "not here".
    **{
        f"{method} /api/2.0/mlflow{tail}": "refuses"
        for tail in ("/{path:path}", "-artifacts/{path:path}")
        for method in WRITES
    },
    "POST /api/2.0/mlflow/registered-models/rename": "refuses",
    "POST /api/2.0/mlflow/model-versions/transition-stage": "refuses: there are no stages",
    # The inbox is no resource: what is registered from it is audited, as the version's making.
    "DELETE /api/2.0/mlflow-artifacts/artifacts/{path:path}": "takes a file back",
    "POST /api/2.0/mlflow/registered-models/get-latest-versions": "a question",
    "POST /v1/webhooks/{webhook}/test": "sends one message and changes nothing",
}


def test_every_write_is_audited() -> None:
    silent = []
    for context in iter_route_contexts(list(chain.from_iterable(router.routes for router in ROUTERS))):
        for method in sorted(WRITES & (context.methods or set())):
            name = f"{method} {context.path}"
            if not audits(context.endpoint, set()):
                silent.append(name)
    assert sorted(set(silent) - NOT_AUDITED.keys()) == [], "call unit.audit, or say in NOT_AUDITED why not"


def audits(function: Callable[..., Any], seen: set[Callable[..., Any]]) -> bool:
    """Whether an entry is written by `function` or by one of ours that it calls."""
    function = inspect.unwrap(function)
    if function in seen or not inspect.isfunction(function):
        return False
    seen.add(function)
    tree = ast.parse(textwrap.dedent(inspect.getsource(function)))
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "audit":
            return True
    found = list(named(tree, function.__globals__))
    if any(isinstance(value, TextClause) and "INSERT INTO audit" in value.text for value in found):
        return True
    ours = [value for value in found if getattr(value, "__module__", "").startswith("registry.")]
    return any(audits(value, seen) for value in ours if inspect.isfunction(value))


def named(tree: ast.AST, known: Mapping[str, Any]) -> Iterator[Any]:
    """What the names and `module.name`s in a piece of source stand for."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Name) and node.id in known:
            yield known[node.id]
        elif isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
            module = known.get(node.value.id)
            if isinstance(module, ModuleType) and hasattr(module, node.attr):
                yield getattr(module, node.attr)


async def test_an_entry_holds_what_was_before_and_what_is_after(registry: Registry) -> None:
    call = registry.client
    await make_model(registry, "ants")
    model = await call(models.get("ants"))
    await call(models.patch("ants", ModelPatch(owner="ben"), model.revision))
    body = DeploymentCreate(environment="prod", name="ants", model="ants")
    made = await call(deployments.create(body))
    made = await call(deployments.patch("prod/ants", DeploymentPatch(selector={"a": "b"}), made.revision))
    await call(deployments.pin("prod/ants", Pin(reason="not today")))
    await call(deployments.unpin("prod/ants"))
    node = await enrol(registry)
    await call(nodes.drain(node.node))
    token = await call(access.create_token(TokenCreate(name="ci", roles=(Role.VIEWER,))))
    await call(access.rotate_token(token.token.id, TokenRotate()))
    await call(access.revoke_token(token.token.id))
    entries = list(reversed((await call(access.audit())).items))
    changed = {
        entry.action: {
            key: (entry.before[key], entry.after[key])
            for key in entry.before.keys() & entry.after.keys()
            if entry.before[key] != entry.after[key]
        }
        for entry in entries
        if entry.before is not None and entry.after is not None
    }
    assert changed["model.patch"]["owner"] == ("admin", "ben")
    assert changed["deployment.patch"]["selector"] == ({}, {"a": "b"})
    assert changed["deployment.pin"]["pin_reason"] == ("", "not today")
    assert changed["deployment.unpin"]["pinned"] == (True, False)
    assert changed["node.drain"]["draining"] == (False, True)
    assert changed["token.rotate"]["expires_at"][0] is None
    assert changed["token.revoke"]["revoked_at"][0] is None
    made_anew = {entry.action for entry in entries if entry.before is None}
    assert made_anew >= {"model.create", "deployment.create", "node.invite", "node.enrol", "token.create"}
