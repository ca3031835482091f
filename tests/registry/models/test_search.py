"""Searches of models and versions: what is found, in which order, by which pages, and what is refused."""

import pytest

from registry.client import ApiError, deployments, models, versions
from registry.contract.deployments import DeploymentCreate
from registry.contract.tokens import Role
from registry.contract.versions import (
    DatasetRef,
    Framework,
    Lineage,
    Metric,
    MetricsAppend,
    ModelCreate,
    ModelPatch,
    StageChange,
)
from registry.lifecycle.searching import MODELS, VERSIONS
from registry.models import model_search, version_search
from tests.registry.conftest import Registry
from tests.registry.support import declared, make_dataset, make_model, ready_version, run_sql


async def found(registry: Registry, filter: str, order_by: str | None = None) -> list[str]:
    """Names of the versions that a search finds, over pages of two."""
    names: list[str] = []
    token: str | None = None
    while True:
        page = await registry.client(versions.search(filter, order_by, token, limit=2))
        names += [f"{version.model}@{version.number}" for version in page.items]
        token = page.next_page_token
        if token is None:
            return names


async def measure(registry: Registry, version: int, value: float, split: str = "all") -> None:
    metric = Metric(dataset=DatasetRef(name="valset", version=1), split=split, name="top1", value=value, n=9)
    await registry.client(versions.append_metrics("ants", version, MetricsAppend(metrics=(metric,))))


async def garden(registry: Registry) -> None:
    """ants@1 (ready), ants@2 and bees@1 (drafts)."""
    await make_dataset(registry, "valset")
    await ready_version(registry, "ants", lineage=Lineage(commit="4f1e2d", training_run="run-1"))
    data = DatasetRef(name="valset", version=1)
    body = declared().model_copy(
        update={"tags": {"team": "nlp", "odd key": "it's"}, "lineage": Lineage(training_data=data)}
    )
    await registry.client(versions.create("ants", body))
    await make_model(registry, "bees")
    await registry.client(models.patch("bees", ModelPatch(owner="zoe", task="count"), revision=1))
    other = declared({"other.onnx": b"other"}).model_copy(
        update={"framework": Framework.PYTORCH, "tags": {"team": "vision"}}
    )
    await registry.client(versions.create("bees", other))


async def test_what_each_field_finds(registry: Registry) -> None:
    await garden(registry)
    first = await registry.client(versions.get("ants", 1))
    bees = (await registry.client(versions.get("bees", 1))).digest
    await registry.client(models.set_alias("ants", "champion", 1))
    for value in (0.95, 0.5):
        await measure(registry, 1, value)
    await measure(registry, 2, 0.9)
    await measure(registry, 2, 0.1, split="night")
    wanted = {
        "": ["bees@1", "ants@2", "ants@1"],
        "name=ants": ["ants@2", "ants@1"],
        "name~EE": ["bees@1"],
        "name!=ants": ["bees@1"],
        "owner=zoe": ["bees@1"],
        "owner!=zoe and number=1": ["ants@1"],
        "task in (count, sing)": ["bees@1"],
        "stage=draft": ["bees@1", "ants@2"],
        "stage in (ready, archived)": ["ants@1"],
        "framework=pytorch": ["bees@1"],
        f"digest={first.digest}": ["ants@2", "ants@1"],
        f"digest={bees}": ["bees@1"],
        f"digest={first.files[0].digest}": ["ants@2", "ants@1"],
        f"digest!={bees}": ["ants@2", "ants@1"],
        "alias=champion": ["ants@1"],
        "alias!=champion": ["bees@1", "ants@2"],
        "commit=4f1e2d": ["ants@1"],
        "training_run=run-1": ["ants@1"],
        "training_data=valset": ["ants@2"],
        "training_data='valset@1'": ["ants@2"],
        "training_data=valset@2": [],
        "tags.team=nlp": ["ants@2"],
        "tags.team in (nlp, vision)": ["bees@1", "ants@2"],
        "tags.team!=nlp": ["bees@1"],
        "tags.team~VIS": ["bees@1"],
        "tags.'odd key'='it''s'": ["ants@2"],
        "number>1": ["ants@2"],
        "created_by=admin and created_at>2020-01-01": ["bees@1", "ants@2", "ants@1"],
        "created_at<2020-01-01": [],
        "deployment=prod/ants": [],
        # 0.95 was the number of ants@1 once; the newest one counts.
        "metrics.top1@valset>0.6": ["ants@2"],
        "metrics.top1@valset<=0.5": ["ants@1"],
        "metrics.top1@valset@1/night<0.5": ["ants@2"],
        "metrics.top1@valset@2>0": [],
        "tags.team=nlp and metrics.top1@valset>0.8 and stage=draft": ["ants@2"],
    }
    assert {filter: await found(registry, filter) for filter in wanted} == wanted


async def test_orders_are_total_and_pages_lose_nothing(registry: Registry) -> None:
    await garden(registry)
    await measure(registry, 1, 0.5)
    await measure(registry, 1, 0.9)
    await measure(registry, 2, 0.7)
    newest = ["bees@1", "ants@2", "ants@1"]
    assert await found(registry, "", "created_at") == newest[::-1]
    assert await found(registry, "", "name") == ["ants@1", "ants@2", "bees@1"]
    assert await found(registry, "", "name desc") == ["bees@1", "ants@2", "ants@1"]
    assert await found(registry, "", "metrics.top1@valset desc") == ["ants@1", "ants@2"]
    assert await found(registry, "number=2", "metrics.top1@valset") == ["ants@2"]
    # Equal keys: made in one moment, measured alike.
    await run_sql(registry, "UPDATE versions SET created_at = now()")
    await run_sql(registry, "UPDATE metrics SET value = 1")
    assert sorted(await found(registry, "", "created_at desc")) == sorted(newest)
    assert len(await found(registry, "", "metrics.top1@valset desc")) == 2


async def test_a_page_is_what_get_says(registry: Registry) -> None:
    await garden(registry)
    await registry.client(models.set_alias("ants", "champion", 1))
    await registry.client(versions.quarantine("ants", 1, StageChange(reason="leaks")))
    page = await registry.client(versions.search())
    assert list(page.items) == [
        await registry.client(versions.get(version.model, version.number)) for version in page.items
    ]
    assert page.items[-1].warnings == ("the alias champion names it",)


async def test_a_foreign_cursor_is_refused(registry: Registry) -> None:
    await garden(registry)
    token = (await registry.client(versions.search("stage=draft", limit=1))).next_page_token
    assert token is not None
    again = await registry.client(versions.search("stage = 'draft'", page_token=token))
    assert [version.number for version in again.items] == [2]
    for filter, order_by in (("", None), ("stage=draft", "name"), ("stage=draft", "created_at")):
        with pytest.raises(ApiError, match="page_token was not made by this list") as refused:
            await registry.client(versions.search(filter, order_by, token))
        assert refused.value.status == 422
    for odd in (token[:-4], token + "x", "e30=", "bnVsbA==", "W10=", "é"):
        with pytest.raises(ApiError, match="page_token was not made by this list"):
            await registry.client(versions.search("stage=draft", page_token=odd))


WRONG = [
    ("stage=rady", None, "filter: at character 7: expected one of draft, verifying"),
    ("team=nlp", None, "filter: at character 1: expected a field"),
    ("", "size", "order_by: at character 1: expected one of name, created_at, metrics"),
]


async def test_a_wrong_search_is_told_where(registry: Registry) -> None:
    for filter, order_by, said in WRONG:
        with pytest.raises(ApiError, match=said) as refused:
            await registry.client(versions.search(filter, order_by))
        assert (refused.value.status, refused.value.kind) == (422, "invalid")


async def test_a_token_finds_its_models_only(registry: Registry) -> None:
    await garden(registry)
    reader = await registry.as_role(Role.VIEWER, models=("bees",))
    page = await reader(versions.search())
    assert [version.model for version in page.items] == ["bees"]
    assert [model.name for model in (await reader(models.page(filter="name~s"))).items] == ["bees"]


async def test_models_are_searched(registry: Registry) -> None:
    for name, tags in (("ants", {"team": "nlp"}), ("bees", {"team": "vision"}), ("cats", {})):
        body = ModelCreate(name=name, task="count", description=f"About {name}", tags=tags)
        await registry.client(models.create(body))
    await registry.client(models.patch("cats", ModelPatch(owner="zoe"), revision=1))
    await registry.client(versions.create("bees", declared()))
    await registry.client(deployments.create(DeploymentCreate(environment="prod", name="b", model="bees")))
    wanted = {
        "name~A": ["ants", "cats"],
        "owner=zoe": ["cats"],
        "description~'out bees'": ["bees"],
        "task=count and tags.team in (nlp, vision)": ["ants", "bees"],
        "latest_version>=1": ["bees"],
        "deployment=prod/b": ["bees"],
        "deployment!=prod/b": ["ants", "cats"],
        "created_at>2020-01-01 and created_by=admin": ["ants", "bees", "cats"],
    }
    for filter, names in wanted.items():
        page = await registry.client(models.page(filter=filter))
        assert [model.name for model in page.items] == names, filter
    newest: list[str] = []
    token = None
    while True:
        page = await registry.client(models.page(token, limit=1, order_by="created_at desc"))
        newest += [model.name for model in page.items]
        token = page.next_page_token
        if token is None:
            break
    assert newest == ["cats", "bees", "ants"]
    first = await registry.client(models.page(limit=1, search="a"))
    with pytest.raises(ApiError, match="page_token was not made by this list"):
        await registry.client(models.page(first.next_page_token, search="b"))


def test_every_field_of_the_language_has_its_sql() -> None:
    texts = {name for name, field in VERSIONS.fields.items() if field.kind in ("text", "exact")}
    assert texts == set(version_search.TEXTS)
    texts = {name for name, field in MODELS.fields.items() if field.kind in ("text", "exact")}
    assert texts == {*model_search.TEXTS, "deployment"}
