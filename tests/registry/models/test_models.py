"""Models, aliases, metrics, and the rules that every resource shares: ETags, roles, idempotency."""

import pytest

from registry.client import ApiError, access, models, versions
from registry.contract.tokens import Role
from registry.contract.versions import (
    DatasetRef,
    Metric,
    MetricsAppend,
    ModelCreate,
    ModelPatch,
    StageChange,
)
from tests import patience
from tests.registry.conftest import ADMIN, Registry
from tests.registry.support import make_dataset, make_model, ready_version

AUTHORIZED = {"authorization": f"Bearer {ADMIN}"}


async def test_a_name_is_taken_once(registry: Registry) -> None:
    await registry.client(models.create(ModelCreate(name="animals", task="classify")))
    with pytest.raises(ApiError, match="there is a model animals already") as refused:
        await registry.client(models.create(ModelCreate(name="animals")))
    assert refused.value.status == 409
    assert (await registry.client(models.get("animals"))).task == "classify"


async def test_search_and_pages(registry: Registry) -> None:
    for name in ("ants", "bees", "cats"):
        await registry.client(models.create(ModelCreate(name=name, description=f"About {name.upper()}")))
    first = await registry.client(models.page(limit=2))
    rest = await registry.client(models.page(page_token=first.next_page_token, limit=2))
    assert [model.name for model in (*first.items, *rest.items)] == ["ants", "bees", "cats"]
    found = await registry.client(models.page(search="about bee"))
    assert [model.name for model in found.items] == ["bees"]


async def test_patch_wants_the_present_etag(registry: Registry) -> None:
    await make_model(registry)
    async with patience.async_client(base_url=registry.url, headers=AUTHORIZED) as http:
        etag = (await http.get("/v1/models/animals")).headers["etag"]
        absent = await http.patch("/v1/models/animals", json={"task": "classify"})
        assert (absent.status_code, absent.json()["type"]) == (428, "/problems/precondition-required")
        assert etag in absent.json()["hint"]
        changed = await http.patch("/v1/models/animals", json={"task": "a"}, headers={"if-match": etag})
        assert changed.status_code == 200
        assert changed.headers["etag"] != etag
        assert changed.headers["etag"] == (await http.get("/v1/models/animals")).headers["etag"]
        stale = await http.patch("/v1/models/animals", json={"task": "b"}, headers={"if-match": etag})
        assert (stale.status_code, stale.json()["type"]) == (412, "/problems/stale-revision")
    assert (await registry.client(models.get("animals"))).task == "a"


async def test_patch_is_audited_from_what_to_what(registry: Registry) -> None:
    await make_model(registry)
    await registry.client(models.patch("animals", ModelPatch(owner="zoo"), revision=1))
    entry, created = (await registry.client(access.audit(subject="model:animals"))).items
    assert (entry.action, created.action) == ("model.patch", "model.create")
    assert entry.before is not None
    assert entry.after is not None
    assert (entry.before["owner"], entry.after["owner"]) == ("admin", "zoo")
    assert entry.request_id is not None


async def test_an_unknown_field_is_named(registry: Registry) -> None:
    async with patience.async_client(base_url=registry.url, headers=AUTHORIZED) as http:
        answer = await http.post("/v1/models", json={"name": "animals", "tsak": "classify"})
    assert answer.status_code == 422
    assert [error["where"] for error in answer.json()["errors"]] == ["body.tsak"]


@pytest.mark.parametrize("name", ["a\0b", "UPPER", "a b", "x" * 80])
async def test_odd_names_are_told_and_never_a_fault(registry: Registry, name: str) -> None:
    async with patience.async_client(base_url=registry.url, headers=AUTHORIZED) as http:
        answer = await http.post("/v1/models", json={"name": name})
        assert answer.status_code == 422
        answer = await http.post("/v1/models", json={"name": "fine", "description": "nul \0 inside"})
        assert answer.status_code == 422
        assert answer.headers["content-type"] == "application/problem+json"


async def test_idempotency_keys_replay_and_refuse(registry: Registry) -> None:
    headers = {**AUTHORIZED, "idempotency-key": "one"}
    await make_model(registry)
    async with patience.async_client(base_url=registry.url, headers=headers) as http:
        first = await http.post("/v1/models", json={"name": "ants"})
        again = await http.post("/v1/models", json={"name": "ants"})
        assert (first.status_code, again.status_code) == (201, 201)
        assert again.content == first.content
        assert again.headers["idempotent-replay"] == "true"
        assert again.headers["etag"] == first.headers["etag"]
        other = await http.post("/v1/models", json={"name": "bees"})
        assert (other.status_code, other.json()["type"]) == (422, "/problems/idempotency-mismatch")
    assert [model.name for model in (await registry.client(models.page())).items] == ["animals", "ants"]


async def test_a_viewer_reads_and_does_not_write(registry: Registry) -> None:
    await make_model(registry)
    viewer = await registry.as_role(Role.VIEWER)
    assert (await viewer(models.get("animals"))).name == "animals"
    with pytest.raises(ApiError, match="this needs publisher") as refused:
        await viewer(models.create(ModelCreate(name="ants")))
    assert refused.value.status == 403
    assert "--role publisher" in refused.value.problem.hint


async def test_aliases_name_versions(registry: Registry) -> None:
    await ready_version(registry)
    await ready_version(registry, files={"model.onnx": b"second"})
    await registry.client(models.set_alias("animals", "champion", 1))
    moved = await registry.client(models.set_alias("animals", "champion", 2))
    assert moved.version == 2
    assert (await registry.client(versions.get("animals", 2))).aliases == ("champion",)
    assert (await registry.client(versions.get("animals", 1))).aliases == ()
    history = (await registry.client(access.audit(subject="alias:animals/champion"))).items
    assert [entry.after["version"] for entry in history if entry.after] == [2, 1]
    await registry.client(models.delete_alias("animals", "champion"))
    assert (await registry.client(models.aliases("animals"))).items == ()
    with pytest.raises(ApiError, match="has no alias champion"):
        await registry.client(models.delete_alias("animals", "champion"))


async def test_an_alias_does_not_point_at_what_is_quarantined(registry: Registry) -> None:
    await ready_version(registry)
    await registry.client(versions.quarantine("animals", 1, StageChange(reason="leaks")))
    with pytest.raises(ApiError, match="animals@1 is quarantined: leaks"):
        await registry.client(models.set_alias("animals", "champion", 1))


async def test_the_newest_metric_counts(registry: Registry) -> None:
    await ready_version(registry)
    ref = (await make_dataset(registry, "valset")).ref
    for value in (0.8, 0.9):
        metric = Metric(dataset=ref, name="accuracy", value=value, n=100)
        await registry.client(versions.append_metrics("animals", 1, MetricsAppend(metrics=(metric,))))
    (kept,) = (await registry.client(versions.metrics("animals", 1))).items
    assert (kept.value, kept.recorded_by) == (0.9, "admin")


async def test_a_metric_of_an_unknown_data_set_is_refused(registry: Registry) -> None:
    await ready_version(registry)
    metric = Metric(dataset=DatasetRef(name="nothing", version=2), name="accuracy", value=1, n=1)
    with pytest.raises(ApiError, match="there is no data set nothing@2"):
        await registry.client(versions.append_metrics("animals", 1, MetricsAppend(metrics=(metric,))))
