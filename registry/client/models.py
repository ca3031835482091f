"""Calls on models and aliases."""

from registry.client.call import Call, path, query
from registry.contract.pages import Page
from registry.contract.versions import Alias, AliasSet, Model, ModelCreate, ModelPatch


def create(body: ModelCreate) -> Call[Model]:
    return Call("POST", path("models"), Model, body)


def get(model: str) -> Call[Model]:
    return Call("GET", path("models", model), Model)


def page(page_token: str | None = None, limit: int = 100, search: str | None = None) -> Call[Page[Model]]:
    return Call(
        "GET", path("models"), Page[Model], query=query(page_token=page_token, limit=limit, search=search)
    )


def patch(model: str, body: ModelPatch, revision: int) -> Call[Model]:
    return Call("PATCH", path("models", model), Model, body, if_match=revision)


def aliases(model: str) -> Call[Page[Alias]]:
    return Call("GET", path("models", model, "aliases"), Page[Alias])


def set_alias(model: str, alias: str, version: int) -> Call[Alias]:
    return Call("PUT", path("models", model, "aliases", alias), Alias, AliasSet(version=version))


def delete_alias(model: str, alias: str) -> Call[None]:
    return Call("DELETE", path("models", model, "aliases", alias), None)
