"""The audit trail: who changed what, when, through which door."""

import httpx

from registry.client import access, models
from registry.contract.tokens import Role
from registry.contract.versions import ModelCreate
from tests.registry.conftest import ADMIN, Registry


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


async def test_an_entry_names_the_door_and_the_request(registry: Registry) -> None:
    headers = {"authorization": f"Bearer {ADMIN}", "x-slipway-via": "CLI", "x-request-id": "from-the-cli"}
    async with httpx.AsyncClient(base_url=registry.url, headers=headers, trust_env=False) as http:
        (await http.post("/v1/models", json={"name": "ants"})).raise_for_status()
    (entry,) = (await registry.client(access.audit(subject="model:ants"))).items
    assert (entry.actor, entry.via, entry.request_id) == ("admin", "CLI", "from-the-cli")


async def test_what_is_refused_is_not_recorded(registry: Registry) -> None:
    viewer = await registry.as_role(Role.VIEWER)
    before = (await registry.client(access.audit())).items
    async with httpx.AsyncClient(base_url=registry.url, trust_env=False) as http:
        await http.post("/v1/models", json={"name": "ants"})
    assert (await viewer(access.audit())).items == before
