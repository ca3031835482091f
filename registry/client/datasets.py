"""Calls on data sets."""

from registry.client.call import Call, path, query
from registry.contract.datasets import Dataset, DatasetCreate, DatasetPatch
from registry.contract.pages import Page


def create(body: DatasetCreate) -> Call[Dataset]:
    return Call("POST", path("datasets"), Dataset, body)


def get(name: str, version: int) -> Call[Dataset]:
    return Call("GET", path("datasets", name, "versions", version), Dataset)


def patch(name: str, version: int, body: DatasetPatch, revision: int) -> Call[Dataset]:
    return Call("PATCH", path("datasets", name, "versions", version), Dataset, body, if_match=revision)


def delete(name: str, version: int, revision: int) -> Call[None]:
    """409 names what refers to it."""
    return Call("DELETE", path("datasets", name, "versions", version), None, if_match=revision)


def page(page_token: str | None = None, limit: int = 100) -> Call[Page[Dataset]]:
    return Call("GET", path("datasets"), Page[Dataset], query=query(page_token=page_token, limit=limit))
