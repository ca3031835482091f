"""Calls on data sets."""

from registry.client.call import Call, path, query
from registry.contract.datasets import Dataset, DatasetCreate
from registry.contract.pages import Page


def create(body: DatasetCreate) -> Call[Dataset]:
    return Call("POST", path("datasets"), Dataset, body)


def get(name: str, version: int) -> Call[Dataset]:
    return Call("GET", path("datasets", name, "versions", version), Dataset)


def page(page_token: str | None = None, limit: int = 100) -> Call[Page[Dataset]]:
    return Call("GET", path("datasets"), Page[Dataset], query=query(page_token=page_token, limit=limit))
