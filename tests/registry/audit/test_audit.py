"""The audit trail: who changed what, when, through which door."""

from datetime import timedelta

import psycopg
import pytest

from registry.client import ApiError, access, models
from registry.contract.tokens import Role
from registry.contract.versions import ModelCreate, ModelPatch
from tests import patience
from tests.registry.conftest import ADMIN, Registry
from tests.registry.support import run_sql


async def test_filters_and_pages(registry: Registry) -> None:
    publisher = await registry.as_role(Role.PUBLISHER)
    for name in ("ants", "bees", "cats"):
        await publisher(models.create(ModelCreate(name=name)))
    mine = await registry.client(access.audit(actor="publisher", limit=2))
    assert [entry.subject for entry in mine.items] == ["model:cats", "model:bees"]
    rest = await registry.client(access.audit(actor="publisher", page_token=mine.next_page_token))
    assert [entry.subject for entry in rest.items] == ["model:ants"]
    (bees,) = (await registry.client(access.audit(subject="model:b"))).items
    assert (bees.action, bees.before, bees.reason) == ("model.create", None, "")
    assert (await registry.client(access.audit(subject="model:%"))).items == ()


async def test_filters_by_action_and_time(registry: Registry) -> None:
    made = await registry.client(models.create(ModelCreate(name="ants")))
    await registry.client(models.patch("ants", ModelPatch(description="six legs"), made.revision))
    patched, created = (await registry.client(access.audit(subject="model:"))).items
    assert patched.before is not None and patched.after is not None
    assert (patched.before["description"], patched.after["description"]) == ("", "six legs")
    assert patched.at > created.at

    async def found(**wishes: object) -> list[str]:
        page = await registry.client(access.audit(subject="model:", **wishes))  # type: ignore[arg-type]
        return [entry.action for entry in page.items]

    assert await found(action="model.patch") == ["model.patch"]
    assert await found(action="model.") == ["model.patch", "model.create"]
    assert await found(action="model") == []
    assert await found(since=patched.at) == ["model.patch"]
    assert await found(until=patched.at) == ["model.create"]
    assert await found(since=created.at, until=patched.at + timedelta(microseconds=1)) == await found()
    naive = patched.at.replace(tzinfo=None)
    with pytest.raises(ApiError, match="`since` has no time zone") as refused:
        await found(since=naive)
    assert "RFC 3339" in refused.value.problem.hint


async def test_an_entry_names_the_door_and_the_request(registry: Registry) -> None:
    headers = {"authorization": f"Bearer {ADMIN}", "x-slipway-via": "CLI", "x-request-id": "from-the-cli"}
    async with patience.async_client(base_url=registry.url, headers=headers) as http:
        (await http.post("/v1/models", json={"name": "ants"})).raise_for_status()
    (entry,) = (await registry.client(access.audit(subject="model:ants"))).items
    assert (entry.actor, entry.via, entry.request_id) == ("admin", "CLI", "from-the-cli")


async def test_what_is_refused_is_not_recorded(registry: Registry) -> None:
    viewer = await registry.as_role(Role.VIEWER)
    before = (await registry.client(access.audit())).items
    async with patience.async_client(base_url=registry.url) as http:
        await http.post("/v1/models", json={"name": "ants"})
    assert (await viewer(access.audit())).items == before


@pytest.mark.parametrize(
    "statement",
    [
        "UPDATE audit SET actor = 'nobody'",
        "DELETE FROM audit",
        "TRUNCATE audit",
        "INSERT INTO audit (id, actor, action, subject, reason, via) OVERRIDING SYSTEM VALUE SELECT id, 'x', "
        "'x', 'x', '', 'x' FROM audit LIMIT 1 ON CONFLICT (id) DO UPDATE SET actor = 'nobody'",
    ],
)
async def test_the_database_refuses_to_change_an_entry(registry: Registry, statement: str) -> None:
    await registry.client(models.create(ModelCreate(name="ants")))
    before = (await registry.client(access.audit())).items
    with pytest.raises(psycopg.errors.InsufficientPrivilege, match="the audit trail is append-only"):
        await run_sql(registry, statement)  # type: ignore[arg-type]
    assert (await registry.client(access.audit())).items == before
