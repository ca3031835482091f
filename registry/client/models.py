"""Calls on models and aliases."""

from registry.client.call import Call, path, query
from registry.contract.pages import Page
from registry.contract.versions import Alias, AliasChange, AliasSet, Model, ModelCreate, ModelPatch


def create(body: ModelCreate) -> Call[Model]:
    return Call("POST", path("models"), Model, body)


def get(model: str) -> Call[Model]:
    return Call("GET", path("models", model), Model)


def page(
    page_token: str | None = None,
    limit: int = 100,
    search: str | None = None,
    filter: str | None = None,
    order_by: str | None = None,
) -> Call[Page[Model]]:
    """`search`: a text in name, task, description or owner; `filter`: `owner=ann and tags.team='nlp'`."""
    return Call(
        "GET",
        path("models"),
        Page[Model],
        query=query(page_token=page_token, limit=limit, search=search, filter=filter, order_by=order_by),
    )


def patch(model: str, body: ModelPatch, revision: int) -> Call[Model]:
    return Call("PATCH", path("models", model), Model, body, if_match=revision)


def delete(model: str, revision: int) -> Call[None]:
    """A model without versions. 409 names what refers to it."""
    return Call("DELETE", path("models", model), None, if_match=revision)


def aliases(model: str) -> Call[Page[Alias]]:
    return Call("GET", path("models", model, "aliases"), Page[Alias])


def alias(model: str, alias: str) -> Call[Alias]:
    return Call("GET", path("models", model, "aliases", alias), Alias)


def alias_history(
    model: str, alias: str, page_token: str | None = None, limit: int = 100
) -> Call[Page[AliasChange]]:
    """Newest first."""
    return Call(
        "GET",
        path("models", model, "aliases", alias, "history"),
        Page[AliasChange],
        query=query(page_token=page_token, limit=limit),
    )


def set_alias(
    model: str, alias: str, version: int, expected_version: int | None = None, reason: str = ""
) -> Call[Alias]:
    """`expected_version`: the one that it must name until now, 0 for none; 409 otherwise."""
    body = AliasSet(version=version, expected_version=expected_version, reason=reason)
    return Call("PUT", path("models", model, "aliases", alias), Alias, body)


def delete_alias(model: str, alias: str, expected_version: int | None = None) -> Call[None]:
    return Call(
        "DELETE",
        path("models", model, "aliases", alias),
        None,
        query=query(expected_version=expected_version),
    )
