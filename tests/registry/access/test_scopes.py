"""A token limited to models and environments neither sees nor touches others, whatever its roles are."""

from collections.abc import Mapping

import httpx
import pytest

from registry.client import ApiError, access, builds, datasets, deployments, models, nodes, uploads, versions
from registry.contract.builds import BuildCreate
from registry.contract.deployments import DeploymentCreate
from registry.contract.nodes import EnrolmentCreate
from registry.contract.tokens import Role, TokenCreate, TokenRotate
from registry.contract.versions import Metric, MetricsAppend, ModelCreate, StageChange
from registry.edge.scopes import ELSEWHERE
from tests.registry.access.walking import RAW, routes, status_of
from tests.registry.conftest import Registry
from tests.registry.nodes.agents import enrol
from tests.registry.support import built, make_dataset, make_model, ready_version, run_sql

SCOPE = {"models": ("ants",), "environments": ("qa",)}
# Path parameters that name what belongs to a model or an environment: 404 for others'.
SCOPED = frozenset(
    {"model", "environment", "build", "engine", "arm", "task", "node", "enrolment", "rollback", "token"}
)
# Those that belong to neither: bytes are found by who knows their digest, data sets are everybody's, an
# upload is its maker's.
UNSCOPED = frozenset({"digest", "key", "upload", "path"})
# Ends of a path that a scoped one stands before.
BESIDES = frozenset({"name", "number", "version", "alias", "event", "webhook"})
# What lists need, asked for what lies outside: they answer 404 or 403, or as if there were nothing.
QUERIES: Mapping[str, Mapping[str, str]] = {
    "/v1/audit/serving": {"environment": "prod", "at": "2100-01-01T00:00:00Z"},
    "/v1/lineage": {"of": "version:bees@1"},
    "/v1/builds": {"version": "bees@1"},
    "/v1/engines": {"version": "bees@1"},
    "/v1/nodes": {"environment": "prod"},
    "/v1/enrolments": {"environment": "prod"},
    "/v1/deployments": {"environment": "prod"},
    "/v1/audit": {"subject": "model:bees"},
}
MLFLOW = {
    "name": "bees",
    "new_name": "wasps",
    "version": "1",
    "alias": "best",
    "key": "k",
    "value": "v",
    "stage": "None",
    "source": "models:/bees/1",
}
# What is told to everybody: how the process fares.
ABOUT_NOBODY = frozenset({"/healthz", "/readyz", "/metrics"})


@pytest.fixture
async def both(registry: Registry) -> dict[str, str]:
    """The same things twice, within the scope and beyond it; the ids of the nodes, by model."""
    made = {}
    for model, environment in (("ants", "qa"), ("bees", "prod")):
        await make_model(registry, model)
        body = DeploymentCreate(environment=environment, name=model, model=model)
        await registry.client(deployments.create(body))
        made[model] = (await enrol(registry, f"node-of-{model}", environment)).node
    return made


@pytest.fixture
async def names(registry: Registry, both: dict[str, str]) -> dict[str, str]:
    """What lies beyond the scope, by path parameter; with versions and builds on both sides."""
    for model in both:
        await ready_version(registry, model, {"model.onnx": model.encode()})
        build = await built(registry, f"{model}@1")
    (engine,) = (await registry.client(builds.engines("bees@1"))).items
    arm = f"arm-{'1' * 64}"
    await run_sql(
        registry,
        "INSERT INTO arms (id, version_id, precision, engines, pipeline, proven) "
        "SELECT %s, id, 'fp32', '{}', 'p', true FROM versions WHERE model = 'bees'",
        arm,
    )
    await run_sql(
        registry,
        "INSERT INTO rollbacks (id, deployment_id, generation, asked_by, reason, automatic, from_arms, "
        "to_arm, notes) SELECT 'rbk_1', id, 1, 'ana', 'bad', false, '[]', %s, '[]' FROM deployments "
        "WHERE model = 'bees'",
        arm,
    )
    body_of_token = TokenCreate(name="of prod", roles=(Role.VIEWER,), environments=("prod",))
    token = await registry.client(access.create_token(body_of_token))
    return {
        "model": "bees",
        "environment": "prod",
        "name": "bees",
        "number": "1",
        "build": build.id,
        "engine": engine.id,
        "arm": arm,
        "task": (await run_sql(registry, "SELECT task_id FROM builds WHERE id = %s", build.id))[0][0],
        "node": both["bees"],
        "enrolment": (await registry.client(nodes.invite(EnrolmentCreate(environment="prod")))).id,
        "rollback": "rbk_1",
        "token": token.token.id,
    }


def test_every_path_parameter_is_classified() -> None:
    found = {parameter for route in routes() for parameter in route.parameters}
    assert sorted(found - SCOPED - UNSCOPED - BESIDES) == [], "add it to OWNERS in registry/edge/scopes.py"


async def test_what_is_out_of_scope_is_not_there(registry: Registry, names: dict[str, str]) -> None:
    limited = TokenCreate(name="limited", roles=(Role.ADMIN,), **SCOPE)  # type: ignore[arg-type]
    secret = (await registry.client(access.create_token(limited))).secret
    before = await run_sql(registry, "SELECT count(*) FROM audit")
    wrong: list[str] = []
    async with httpx.AsyncClient(base_url=registry.url, trust_env=False, timeout=30) as http:
        for route in routes():
            if route.parameters & SCOPED:
                # A body is read before the path's owner is asked, so it must be one.
                status, text = await status_of(http, route, secret, names)
                hidden, _ = await status_of(
                    http, route, secret, {**names, **dict.fromkeys(SCOPED - {"arm"}, "nothing")}
                )
                # On its own routes a node is refused by who it is, before what it names is looked up.
                expected = 403 if (route.method, route.path) in RAW else 404
                if (status, hidden) != (expected, expected):
                    wrong.append(f"{route}: {status} {text[:120]}; {hidden} for what does not exist")
        # MLflow's clients name models in bodies and queries.
        for route in routes():
            if route.path.startswith("/api/2.0/mlflow/") and not route.parameters:
                query = MLFLOW if route.method == "GET" else {}
                status, text = await status_of(http, route, secret, query=query, body=MLFLOW)
                if "bees" in text if "search" in route.path else status not in (400, 403, 404):
                    wrong.append(f"{route}: {status} {text[:120]}")
    assert wrong == []
    # Asking for what one can't see leaves no trace, and changes nothing.
    assert await run_sql(registry, "SELECT count(*) FROM audit") == before


async def test_lists_and_searches_hold_what_is_in_scope(registry: Registry, names: dict[str, str]) -> None:
    limited = TokenCreate(name="limited", roles=(Role.ADMIN,), **SCOPE)  # type: ignore[arg-type]
    secret = (await registry.client(access.create_token(limited))).secret
    foreign = ("bees", "prod", *(name for name in names.values() if len(name) > 1))
    seen: dict[str, str] = {}
    wrong: list[str] = []
    async with httpx.AsyncClient(base_url=registry.url, trust_env=False, timeout=30) as http:
        for route in routes():
            if route.method != "GET" or route.parameters or route.path in ABOUT_NOBODY:
                continue
            for query in ({}, QUERIES.get(route.path, {}), MLFLOW if "mlflow" in route.path else {}):
                status, text = await status_of(http, route, secret, query=query)
                if status < 300:
                    seen[str(route)] = seen.get(str(route), "") + text
                    leaked = [word for word in foreign if f'"{word}' in text]
                    if leaked:
                        wrong.append(f"{route} {dict(query)} tells of {leaked}: {text[:300]}")
                elif status not in (403, 404, 422, 400):
                    wrong.append(f"{route} {dict(query)}: {status} {text[:200]}")
    assert wrong == []
    for path in ("models", "versions", "builds", "engines", "deployments", "audit"):
        assert "ants" in seen[f"GET /v1/{path}"], "what is in scope is listed"
    assert "node-of-ants" in seen["GET /v1/nodes"]


async def test_what_a_body_names_must_be_in_scope(registry: Registry, both: dict[str, str]) -> None:
    limited = await registry.as_role(Role.ADMIN, **SCOPE)
    asked = (
        models.create(ModelCreate(name="wasps")),
        builds.create(BuildCreate(version="bees@1")),
        deployments.create(DeploymentCreate(environment="prod", name="x", model="ants")),
        deployments.create(DeploymentCreate(environment="qa", name="x", model="bees")),
        nodes.invite(EnrolmentCreate(environment="prod")),
        access.create_token(TokenCreate(name="wide", roles=(Role.VIEWER,))),
        access.create_token(
            TokenCreate(name="wider", roles=(Role.VIEWER,), models=("ants", "bees"), environments=("qa",))
        ),
    )
    for call in asked:
        with pytest.raises(ApiError, match="the token admin is limited to the models ants and the env") as no:
            await limited(call)  # type: ignore[arg-type]
        assert no.value.status == 403, call.path


async def test_a_limited_admin_manages_the_tokens_of_its_scope(
    registry: Registry, both: dict[str, str]
) -> None:
    limited = await registry.as_role(Role.ADMIN, **SCOPE)
    body = TokenCreate(name="within", roles=(Role.VIEWER,), **SCOPE)  # type: ignore[arg-type]
    made = await limited(access.create_token(body))
    listed = {token.name for token in (await limited(access.tokens())).items}
    assert listed == {"admin", "within"}, "its own and the one within; not the unlimited admin's"
    rotated = await limited(access.rotate_token(made.token.id, TokenRotate()))
    assert (await limited(access.revoke_token(rotated.token.id))).revoked_at is not None
    for token in (await registry.client(access.tokens())).items:
        if not token.models:
            with pytest.raises(ApiError, match="there is no token") as hidden:
                await limited(access.revoke_token(token.id))
            assert hidden.value.status == 404


async def test_a_limit_of_one_kind_limits_that_kind_alone(registry: Registry, both: dict[str, str]) -> None:
    of_prod = await registry.as_role(Role.VIEWER, environments=("prod",))
    assert {model.name for model in (await of_prod(models.page())).items} == {"ants", "bees"}
    assert [found.ref for found in (await of_prod(deployments.page())).items] == ["prod/bees"]
    of_ants = await registry.as_role(Role.VIEWER, models=("ants",))
    assert [found.ref for found in (await of_ants(deployments.page())).items] == ["qa/ants"]
    assert len((await of_ants(nodes.page())).items) == 2
    with pytest.raises(ApiError, match="is limited to the models ants; there is nothing at this path") as no:
        await of_ants(deployments.get("prod/bees"))
    assert no.value.status == 404 and no.value.problem.hint


async def test_that_something_beyond_the_scope_refers_is_told_but_not_what(
    registry: Registry, names: dict[str, str]
) -> None:
    await registry.client(
        deployments.create(DeploymentCreate(environment="prod", name="hidden", model="ants"))
    )
    await run_sql(
        registry,
        "INSERT INTO arms (id, version_id, precision, engines, pipeline, proven) "
        "SELECT 'arm-of-ants', id, 'fp32', '{}', 'p', true FROM versions WHERE model = 'ants'",
    )
    await run_sql(registry, "UPDATE deployments SET stable_arm = 'arm-of-ants' WHERE model = 'ants'")
    dataset = await make_dataset(registry, "valset")
    metric = Metric(dataset=dataset.ref, name="top1", value=0.9, n=10)
    for model in ("ants", "bees"):
        await registry.client(versions.append_metrics(model, 1, MetricsAppend(metrics=(metric,))))
    limited = await registry.as_role(Role.ADMIN, **SCOPE)

    with pytest.raises(ApiError) as kept:
        await limited(versions.archive("ants", 1, StageChange(reason="old")))
    assert kept.value.problem.reasons == ("deployment qa/ants has it as its stable arm", ELSEWHERE)
    with pytest.raises(ApiError) as used:
        await limited(datasets.delete("valset", dataset.version, dataset.revision))
    assert used.value.problem.reasons == ("metrics of version ants@1", ELSEWHERE)
    with pytest.raises(ApiError) as whole:
        await limited(models.delete("ants", 1))
    assert ELSEWHERE in whole.value.problem.reasons and "hidden" not in whole.value.problem.detail
    (digest,) = {file.digest for file in (await registry.client(versions.get("bees", 1))).files}
    with pytest.raises(ApiError) as blob:
        await limited(uploads.delete_blob(digest))
    assert ELSEWHERE in blob.value.problem.reasons and "bees" not in blob.value.problem.detail

    quarantined = await registry.client(versions.quarantine("ants", 1, StageChange(reason="leaks")))
    assert quarantined.stage_reason == "leaks", "whoever reads the model reads this"
    assert "deployment prod/hidden has it as its stable arm" in quarantined.warnings
    expected = ("deployment qa/ants has it as its stable arm", ELSEWHERE)
    assert (await limited(versions.get("ants", 1))).warnings == expected
    assert [version.warnings for version in (await limited(versions.search())).items] == [expected]
    (listed,) = (await limited(versions.page("ants"))).items
    assert listed.warnings == expected
