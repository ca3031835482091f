"""MLflow's API, request by request: its codes, its pages, its roles; and what becomes of a version."""

import asyncio

import httpx
import pytest

from registry.client import ApiError, access, builds, deployments, models, releases, versions
from registry.contract.builds import BuildCreate
from registry.contract.deployments import DeploymentCreate
from registry.contract.releases import Promote
from registry.contract.tokens import Role, TokenCreate
from registry.contract.versions import StageChange
from tests import patience
from tests.registry.conftest import Registry
from tests.registry.mlflow.support import ARTIFACTS, ONNX, PYFUNC, Mlflow, mlflow, registered
from tests.registry.support import digest_of, ready_version, verify_all


async def test_files_that_a_client_left_become_a_version(registry: Registry) -> None:
    async with mlflow(registry) as client:
        await client.create_model(tags=[{"key": "team", "value": "ml"}], description="Flowers")
        source = await client.leave("1/models/m-0abc/artifacts")
        made = await client.version("iris", "models:/m-0abc", tags=[{"key": "k", "value": "v"}])
        assert (made["version"], made["status"], made["source"]) == (
            "1",
            "PENDING_REGISTRATION",
            "models:/m-0abc",
        )
        assert await client.refused(
            "GET", "model-versions/get-download-uri", {"name": "iris", "version": "1"}
        ) == (
            409,
            "RESOURCE_CONFLICT",
            "iris@1 is verifying: not servable: a signature alone serves only the flavour onnx, this has "
            "python_function; log it with a contract file slipway.json, so it can't be loaded. Hint: wait "
            "until it is READY",
        )
        await verify_all(registry)
        made = await client.get("iris", "1")
        assert (made["status"], made["current_stage"], made["run_id"]) == ("READY", "None", "0123abcd")
        assert "not servable: a signature alone" in made["status_message"]
        same = await client.version("iris", source, model_id="m-0abc")
        assert (same["version"], same["status"], same["model_id"]) == ("2", "READY", "m-0abc")
        uri = (await client.ask("GET", "model-versions/get-download-uri", {"name": "iris", "version": "1"}))[
            "artifact_uri"
        ]
        assert uri == f"{registry.url}{ARTIFACTS}/models/iris/1"
        await _downloads(client)
    ours = await registry.client(versions.get("iris", 1))
    assert (ours.framework, ours.lineage.training_run, ours.tags) == ("pyfunc", "0123abcd", {"k": "v"})
    assert [file.path for file in ours.files] == ["MLmodel", "data/weights.bin"]
    with pytest.raises(ApiError, match="iris@1 has no serving contract: not servable: a signature alone"):
        await registry.client(builds.create(BuildCreate(version="iris@1")))
    await registry.client(deployments.create(DeploymentCreate(environment="prod", name="iris", model="iris")))
    with pytest.raises(ApiError, match="can't be released") as refused:
        await registry.client(releases.promote("prod/iris", Promote(version="iris@1")))
    assert any(
        reason.startswith("iris@1 has no serving contract: not servable")
        for reason in refused.value.problem.reasons
    )


async def _downloads(client: Mlflow) -> None:
    root = await client.ask("GET", ARTIFACTS, {"path": "models/iris/1"})
    assert root["files"] == [
        {"path": "MLmodel", "is_dir": False, "file_size": len(PYFUNC)},
        {"path": "data", "is_dir": True},
    ]
    below = await client.ask("GET", ARTIFACTS, {"path": "models/iris/1/data"})
    assert below["files"] == [{"path": "weights.bin", "is_dir": False, "file_size": 7000}]
    found = await client.http.get(f"{ARTIFACTS}/models/iris/1/data/weights.bin")
    assert found.status_code == 307
    async with patience.async_client() as store:
        assert (await store.get(found.headers["location"])).content == b"weights" * 1000
    assert (await client.refused("GET", f"{ARTIFACTS}/models/iris/1/none"))[:2] == (
        404,
        "RESOURCE_DOES_NOT_EXIST",
    )
    assert (await client.refused("GET", ARTIFACTS, {"path": "models/iris"}))[:2] == (
        404,
        "RESOURCE_DOES_NOT_EXIST",
    )


async def test_an_onnx_model_with_a_signature_can_be_built(registry: Registry) -> None:
    async with mlflow(registry) as client:
        await client.create_model()
        source = await client.leave("onnx", {"MLmodel": ONNX, "model.onnx": b"bytes of a model"})
        await client.version("iris", source)
        await verify_all(registry)
    ours = await registry.client(versions.get("iris", 1))
    assert (ours.stage, ours.stage_reason, ours.framework) == ("ready", "", "onnx")
    assert ours.contract.signature.outputs[0].shape == ("batch", 3)
    assert (await registry.client(builds.create(BuildCreate(version="iris@1")))).phase == "queued"


async def test_big_files_come_in_parts(registry: Registry) -> None:
    content = bytes(range(256)) * (40 * 4096)
    async with mlflow(registry) as client:
        await client.leave("big", {"w.bin": content})
        assert (await client.refused("GET", f"{ARTIFACTS}/inbox/big/w.bin"))[:2] == (
            503,
            "TEMPORARILY_UNAVAILABLE",
        )
        await verify_all(registry)
        found = await client.http.get(f"{ARTIFACTS}/inbox/big/w.bin")
        async with httpx.AsyncClient(trust_env=False, timeout=30) as store:
            assert digest_of((await store.get(found.headers["location"])).content) == digest_of(content)
        assert await client.ask("DELETE", f"{ARTIFACTS}/inbox/big") == {}
        assert (await client.refused("GET", ARTIFACTS, {"path": "inbox/big"}))[0] == 404


async def test_what_a_registry_refuses_has_mlflows_codes(registry: Registry) -> None:
    async with mlflow(registry) as client:
        await client.create_model()
        for method, path, body, said in (
            ("POST", "registered-models/create", {"name": "iris"}, (400, "RESOURCE_ALREADY_EXISTS")),
            ("POST", "registered-models/create", {"name": "Iris Model"}, (400, "INVALID_PARAMETER_VALUE")),
            ("POST", "registered-models/create", {}, (400, "INVALID_PARAMETER_VALUE")),
            ("POST", "registered-models/create", {"name": "nul\0"}, (400, "INVALID_PARAMETER_VALUE")),
            ("GET", "registered-models/get", {"name": "none"}, (404, "RESOURCE_DOES_NOT_EXIST")),
            ("GET", "registered-models/get", {"name": "nul\0"}, (400, "INVALID_PARAMETER_VALUE")),
            ("GET", "registered-models/search", {"filter": "size > 3"}, (400, "INVALID_PARAMETER_VALUE")),
            ("GET", "registered-models/search", {"filter": "name = 'a\0'"}, (400, "INVALID_PARAMETER_VALUE")),
            ("GET", "registered-models/search", {"page_token": "odd"}, (400, "INVALID_PARAMETER_VALUE")),
            ("GET", "registered-models/search", {"max_results": 0}, (400, "INVALID_PARAMETER_VALUE")),
            (
                "GET",
                "registered-models/alias",
                {"name": "iris", "alias": "a"},
                (400, "INVALID_PARAMETER_VALUE"),
            ),
            (
                "POST",
                "registered-models/rename",
                {"name": "iris", "new_name": "b"},
                (400, "INVALID_PARAMETER_VALUE"),
            ),
            (
                "POST",
                "registered-models/set-tag",
                {"name": "iris", "key": "k", "value": "v" * 300},
                (400, "INVALID_PARAMETER_VALUE"),
            ),
            (
                "POST",
                "registered-models/alias",
                {"name": "iris", "alias": "v1", "version": "1"},
                (400, "INVALID_PARAMETER_VALUE"),
            ),
            (
                "POST",
                "registered-models/alias",
                {"name": "iris", "alias": "best", "version": "1"},
                (404, "RESOURCE_DOES_NOT_EXIST"),
            ),
            ("GET", "model-versions/get", {"name": "iris", "version": "9"}, (404, "RESOURCE_DOES_NOT_EXIST")),
            ("GET", "model-versions/get", {"name": "iris", "version": "x"}, (400, "INVALID_PARAMETER_VALUE")),
            (
                "POST",
                "model-versions/transition-stage",
                {"name": "iris", "version": "1", "stage": "Production"},
                (400, "INVALID_PARAMETER_VALUE"),
            ),
            (
                "POST",
                "model-versions/create",
                {"name": "none", "source": "x"},
                (404, "RESOURCE_DOES_NOT_EXIST"),
            ),
            (
                "POST",
                "model-versions/create",
                {"name": "iris", "source": "file:///etc"},
                (400, "INVALID_PARAMETER_VALUE"),
            ),
            (
                "POST",
                "model-versions/create",
                {"name": "iris", "source": "models:/m-unknown"},
                (400, "INVALID_PARAMETER_VALUE"),
            ),
            ("POST", "runs/create", {}, (404, "ENDPOINT_NOT_FOUND")),
            ("POST", "/api/2.0/mlflow-artifacts/mpu/create/inbox/x", {}, (404, "ENDPOINT_NOT_FOUND")),
            ("PUT", f"{ARTIFACTS}/models/iris/1/x", {}, (400, "INVALID_PARAMETER_VALUE")),
        ):
            assert (await client.refused(method, path, body))[:2] == said, (method, path, body)
        told = (await client.refused("POST", "registered-models/create", {"name": "Iris Model"}))[2]
        assert "use 'iris-model', for example" in told
    async with mlflow(registry, "wrong") as stranger:
        assert (await stranger.refused("GET", "registered-models/search"))[:2] == (401, "UNAUTHENTICATED")


async def test_search_pages_and_orders(registry: Registry) -> None:
    async with mlflow(registry) as client:
        for name in ("iris-a", "iris-b", "iris-c", "other"):
            await client.create_model(
                name, tags=[{"key": "team", "value": "ml" if name != "iris-b" else "x"}]
            )

        async def names(**query: object) -> tuple[list[str], str | None]:
            found = await client.ask("GET", "registered-models/search", query)
            return [model["name"] for model in found["registered_models"]], found.get("next_page_token")

        assert (await names())[0] == ["iris-a", "iris-b", "iris-c", "other"]
        assert (await names(filter="name LIKE 'iris%' AND tags.team = 'ml'"))[0] == ["iris-a", "iris-c"]
        assert (await names(filter="tags.`mlflow.prompt.is_prompt` != 'true'"))[0][0] == "iris-a"
        assert (await names(filter="tags.none != 'true'"))[0] == []
        assert (await names(filter="name IN ('other', 'iris-a')", order_by="name DESC"))[0] == [
            "other",
            "iris-a",
        ]
        first, token = await names(max_results=3, order_by=["last_updated_timestamp DESC"])
        await client.create_model("newest")
        rest, end = await names(max_results=3, order_by=["last_updated_timestamp DESC"], page_token=token)
        assert (first, rest, end) == (["other", "iris-c", "iris-b"], ["iris-a"], None)
        assert (await client.refused("GET", "registered-models/search", {"page_token": token}))[0] == 400

        source = await client.leave("files")
        for run in ("r1", "r2", "r1"):
            await client.version("iris-a", source, run_id=run)
        await client.version("iris-b", source, run_id="r1")

        async def refs(**query: object) -> list[str]:
            found = await client.ask("GET", "model-versions/search", query)
            return [f"{made['name']}@{made['version']}" for made in found.get("model_versions", [])]

        assert await refs(filter="run_id = 'r1'") == ["iris-b@1", "iris-a@3", "iris-a@1"]
        assert await refs(filter="name = 'iris-a' AND version_number > 1", order_by="version_number ASC") == [
            "iris-a@2",
            "iris-a@3",
        ]
        assert await refs(filter=f"source_path = '{source}'", max_results=1) == ["iris-b@1"]
        assert await refs(filter="tags.k = 'v'") == []


async def test_tags_aliases_and_descriptions(registry: Registry) -> None:
    async with mlflow(registry) as client:
        await client.create_model()
        await registered(registry, client)
        await registered(registry, client)
        at = {"name": "iris", "version": "1"}
        await client.ask("POST", "model-versions/set-tag", {**at, "key": "k", "value": "v"})
        await client.ask("POST", "model-versions/set-tag", {**at, "key": "l", "value": ""})
        await client.ask("DELETE", "model-versions/delete-tag", {**at, "key": "l"})
        await client.ask("PATCH", "model-versions/update", {**at, "description": "the first"})
        await client.ask("POST", "registered-models/alias", {**at, "alias": "champion"})
        await client.ask("POST", "registered-models/set-tag", {"name": "iris", "key": "a", "value": "b"})
        await client.ask("PATCH", "registered-models/update", {"name": "iris", "description": "Flowers"})
        made = (await client.ask("GET", "registered-models/alias", {"name": "iris", "alias": "champion"}))[
            "model_version"
        ]
        assert (made["version"], made["description"], made["aliases"]) == ("1", "the first", ["champion"])
        assert made["tags"] == [{"key": "k", "value": "v"}]
        model = (await client.ask("GET", "registered-models/get", {"name": "iris"}))["registered_model"]
        assert (model["description"], model["tags"]) == ("Flowers", [{"key": "a", "value": "b"}])
        assert model["aliases"] == [{"alias": "champion", "version": "1"}]
        assert [version["version"] for version in model["latest_versions"]] == ["2"]
        latest = {"name": "iris", "stages": ["Production"]}
        assert (await client.ask("POST", "registered-models/get-latest-versions", latest))[
            "model_versions"
        ] == []
        await client.ask("DELETE", "registered-models/alias", {"name": "iris", "alias": "champion"})
        assert (await client.get("iris", "1")).get("aliases", []) == []
    entries = (await registry.client(access.audit(subject="version:iris@1"))).items
    assert [entry.action for entry in entries][:2] == ["version.relabel", "version.relabel"]


async def test_versions_and_models_are_deleted(registry: Registry) -> None:
    async with mlflow(registry) as client:
        await client.create_model()
        await registered(registry, client)
        await registered(registry, client)
        await client.ask("POST", "registered-models/alias", {"name": "iris", "alias": "best", "version": "1"})
        await client.ask("DELETE", "model-versions/delete", {"name": "iris", "version": "1"})
        assert (await client.refused("GET", "model-versions/get", {"name": "iris", "version": "1"}))[0] == 404
        assert (await registry.client(models.aliases("iris"))).items == ()
        await client.ask("DELETE", "registered-models/delete", {"name": "iris"})
        assert (await client.refused("GET", "registered-models/get", {"name": "iris"}))[0] == 404
        await client.create_model()
        assert (await registered(registry, client))["version"] == "3"


async def test_what_is_quarantined_is_not_loaded(registry: Registry) -> None:
    await ready_version(registry)
    async with mlflow(registry) as client:
        assert (await client.get("animals", "1"))["status"] == "READY"
        copy = await client.version("animals", "models:/animals/1")
        assert (copy["version"], copy["status"]) == ("2", "READY")
        await registry.client(versions.quarantine("animals", 1, StageChange(reason="leaks")))
        made = await client.get("animals", "1")
        assert (made["status"], made["status_message"]) == ("FAILED_REGISTRATION", "quarantined: leaks")
        refused = await client.refused(
            "GET", "model-versions/get-download-uri", {"name": "animals", "version": "1"}
        )
        assert refused[:2] == (409, "RESOURCE_CONFLICT")
        assert (await client.refused("DELETE", "registered-models/delete", {"name": "animals"}))[1] == (
            "RESOURCE_CONFLICT"
        )
    ours = await registry.client(versions.get("animals", 2))
    assert (ours.lineage.parent_version, ours.stage_reason) == (1, "")


async def test_roles_and_scopes_are_those_of_the_token(registry: Registry) -> None:
    async with mlflow(registry) as admin:
        await admin.create_model("iris")
        await admin.create_model("secret")
        source = await admin.leave("admins")

    async def token(*roles: Role, models: tuple[str, ...] = ()) -> str:
        body = TokenCreate(name=f"{roles[0]}-{len(models)}", roles=roles, models=models)
        return (await registry.client(access.create_token(body))).secret

    async with mlflow(registry, await token(Role.VIEWER)) as viewer:
        assert len((await viewer.ask("GET", "registered-models/search"))["registered_models"]) == 2
        assert (await viewer.refused("POST", "registered-models/create", {"name": "b"}))[:2] == (
            403,
            "PERMISSION_DENIED",
        )
        assert (await viewer.refused("PUT", f"{ARTIFACTS}/inbox/v/MLmodel", {}))[:2] == (
            403,
            "PERMISSION_DENIED",
        )
    scoped = await token(Role.PUBLISHER, models=("iris",))
    async with mlflow(registry, scoped) as publisher:
        found = (await publisher.ask("GET", "registered-models/search"))["registered_models"]
        assert [model["name"] for model in found] == ["iris"]
        assert (await publisher.refused("GET", "registered-models/get", {"name": "secret"}))[
            1
        ] == "PERMISSION_DENIED"
        body = {"name": "iris", "source": source}
        assert (await publisher.refused("POST", "model-versions/create", body))[
            1
        ] == "INVALID_PARAMETER_VALUE"
        assert (await publisher.refused("PUT", f"{ARTIFACTS}/inbox/admins/MLmodel", {}))[
            1
        ] == "PERMISSION_DENIED"
        assert (await publisher.version("iris", await publisher.leave("own")))["version"] == "1"
    async with patience.async_client(base_url=registry.url, auth=("anyone", scoped)) as basic:
        answer = await basic.get("/api/2.0/mlflow/registered-models/search")
        assert (answer.status_code, len(answer.json()["registered_models"])) == (200, 1)


async def test_parallel_registrations_get_numbers_of_their_own(registry: Registry) -> None:
    async with mlflow(registry) as client:
        await client.create_model()
        source = await client.leave("files")
        made = await asyncio.gather(*(client.version("iris", source) for _ in range(12)))
        assert sorted(int(version["version"]) for version in made) == list(range(1, 13))
