"""What people send, as the edge takes it: refused with its place and its remedy, and after who asks."""

from typing import Any

import httpx
from fastapi import FastAPI

from registry import problems
from registry.client import access, models
from registry.contract.tokens import Role, TokenCreate
from registry.contract.versions import ModelCreate
from tests import patience
from tests.registry.conftest import ADMIN, Registry

JSON = {"content-type": "application/json"}
DIGEST = "sha256-" + "0" * 64
DEPLOYMENT: dict[str, Any] = {"environment": "prod", "name": "ants", "model": "ants"}
RECIPE = {"limits": {"step_memory_mib": 10**23}}


def version(shape: str = '["n", 4]', edges: str = "[0, 1]", more: str = "") -> str:
    """The JSON of a version-create, as text: what is wrong with it no encoder would write."""
    watched = f'{{"name": "v", "kind": "value", "source": "value", "edges": {edges}}}'
    signature = f'{{"inputs": [{{"name": "x", "dtype": "FP32", "shape": {shape}}}], "outputs": []}}'
    return (
        f'{{"framework": "onnx", "files": [{{"path": "m", "digest": "{DIGEST}", "size": 1}}],'
        f' "contract": {{"signature": {signature}, "observables": [{watched}]{more}}}}}'
    )


async def test_what_is_wrong_with_a_body_is_told_with_its_place(registry: Registry) -> None:
    await registry.client(models.create(ModelCreate(name="ants")))
    cases = [
        ("/v1/deployments", {**DEPLOYMENT, "policy": {"auto_advnce": 1}}, "body.policy.auto_advnce"),
        ("/v1/deployments", {**DEPLOYMENT, "unit": {"kind": "key", "hedaer": "x"}}, "body.unit.hedaer"),
        ("/v1/deployments", {**DEPLOYMENT, "policy": {"min_ready": 10**32}}, "body.policy.min_ready"),
        ("/v1/deployments", {**DEPLOYMENT, "policy": {"min_ready": True}}, "body.policy.min_ready"),
        ("/v1/deployments/prod/ants/promote", {"version": "ants@1", "plan": []}, "body.plan"),
        ("/v1/deployments/prod/ants/promote", {"version": "ants@1", "plan": [{"share": 500}]}, "body.plan"),
        ("/v1/deployments/prod/ants/rollback", {"reasn": "x"}, "body.reasn"),
        ("/v1/builds", {"version": "ants@1", "recipe": RECIPE}, "body.recipe.limits.step_memory_mib"),
        ("/v1/sessions", {"expires_in": 60}, "body.expires_in"),
    ]
    texts = [
        (version(more=', "goldn": "g"'), "body.contract.goldn"),
        (version(shape=f'["n", {10**30}]'), "body.contract.signature.inputs.0.shape.1.constrained-int"),
        (version(edges="[NaN, Infinity]"), "body"),
        ("{\n 1}", "body"),
    ]
    headers = {"authorization": f"Bearer {ADMIN}"}
    async with patience.async_client(base_url=registry.url, headers=headers) as http:
        for path, body, where in cases:
            answer = await http.post(path, json=body)
            assert answer.status_code == 422, (path, body, answer.text)
            assert answer.json()["errors"][0]["where"] == where
        for text, where in texts:
            answer = await http.post("/v1/models/ants/versions", content=text, headers=JSON)
            assert answer.status_code == 422, (text, answer.text)
            assert answer.json()["errors"][0]["where"] == where
        assert "(line 2, column 2)" in answer.json()["detail"]
        unlabelled = await http.post("/v1/models", content=b'{"name": "bees"}')
        assert unlabelled.status_code == 422
        assert "Content-Type: application/json" in unlabelled.json()["detail"]
        for unit in ({"kind": "key"}, {"kind": "key", "header": "x y\r\n: é"}, {"header": "x-user"}):
            answer = await http.post("/v1/deployments", json={**DEPLOYMENT, "unit": unit})
            assert answer.status_code == 422 and "unit" in answer.json()["hint"], answer.text


async def test_who_may_not_ask_is_told_that_first(registry: Registry) -> None:
    body = {**DEPLOYMENT, "policy": {"auto_advnce": 1}}
    viewer = await registry.client(access.create_token(TokenCreate(name="eve", roles=(Role.VIEWER,))))
    async with patience.async_client(base_url=registry.url) as http:
        assert (await http.post("/v1/deployments", json=body)).status_code == 401
        headers = {"authorization": f"Bearer {viewer.secret}"}
        assert (await http.post("/v1/deployments", json=body, headers=headers)).status_code == 403
        assert (await http.post("/v1/deployments", content=b"{", headers=headers | JSON)).status_code == 403


async def test_head_is_get_without_the_body_and_a_slash_too_many_is_told(registry: Registry) -> None:
    await registry.client(models.create(ModelCreate(name="ants")))
    headers = {"authorization": f"Bearer {ADMIN}"}
    async with httpx.AsyncClient(base_url=registry.url, headers=headers, trust_env=False, timeout=10) as http:
        for path in ("/v1/models/ants", "/v1/models", "/healthz", "/v1/events/stream"):
            answer = await http.head(path)
            assert (answer.status_code, answer.content) == (200, b""), path
        tagged = await http.get("/v1/models/ants")
        assert (await http.head("/v1/models/ants")).headers["etag"] == tagged.headers["etag"]
        assert (await http.head("/v1/models/bees")).status_code == 404
        lost = await http.post("/v1/models/", json={"name": "bees"})
        assert lost.status_code == 404 and "/v1/models;" in lost.json()["hint"]


async def test_a_failure_says_that_its_connection_ends() -> None:
    app = FastAPI()
    problems.install(app)

    @app.get("/")
    async def fails() -> None:
        raise RuntimeError("on purpose")

    transport = httpx.ASGITransport(app, raise_app_exceptions=False)
    async with httpx.AsyncClient(transport=transport, base_url="http://here") as http:
        answer = await http.get("/")
    assert (answer.status_code, answer.headers["connection"]) == (500, "close")
