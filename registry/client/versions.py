"""Calls on versions and their metrics."""

from registry.client.call import Call, path, query
from registry.contract.pages import Page
from registry.contract.versions import Metric, MetricsAppend, StageChange, Version, VersionCreate
from registry.contract.wire import Command


def _at(model: str, number: int, *more: str) -> str:
    return path("models", model, "versions", number, *more)


def create(model: str, body: VersionCreate) -> Call[Version]:
    """Reserves the next number; the version is a draft until it is sealed."""
    return Call("POST", path("models", model, "versions"), Version, body)


def get(model: str, number: int) -> Call[Version]:
    return Call("GET", _at(model, number), Version)


def page(model: str, page_token: str | None = None, limit: int = 100) -> Call[Page[Version]]:
    """Newest first."""
    return Call(
        "GET",
        path("models", model, "versions"),
        Page[Version],
        query=query(page_token=page_token, limit=limit),
    )


def search(
    filter: str | None = None,
    order_by: str | None = None,
    page_token: str | None = None,
    limit: int = 100,
) -> Call[Page[Version]]:
    """Of all models: `tags.team='nlp' and metrics.top1@valset>0.9 and stage=ready`, newest first."""
    return Call(
        "GET",
        path("versions"),
        Page[Version],
        query=query(filter=filter, order_by=order_by, page_token=page_token, limit=limit),
    )


def seal(model: str, number: int) -> Call[Version]:
    """draft → verifying; → ready once every file is verified, or rejected with the file named."""
    return Call("POST", _at(model, number, "seal"), Version, Command())


def archive(model: str, number: int, body: StageChange) -> Call[Version]:
    return Call("POST", _at(model, number, "archive"), Version, body)


def restore(model: str, number: int, body: StageChange) -> Call[Version]:
    """archived → ready, by way of verifying."""
    return Call("POST", _at(model, number, "restore"), Version, body)


def delete(model: str, number: int, revision: int) -> Call[None]:
    """A draft, rejected or archived version. 409 names what refers to it."""
    return Call("DELETE", _at(model, number), None, if_match=revision)


def quarantine(model: str, number: int, body: StageChange) -> Call[Version]:
    return Call("POST", _at(model, number, "quarantine"), Version, body)


def metrics(model: str, number: int) -> Call[Page[Metric]]:
    return Call("GET", _at(model, number, "metrics"), Page[Metric])


def append_metrics(model: str, number: int, body: MetricsAppend) -> Call[Page[Metric]]:
    return Call("POST", _at(model, number, "metrics"), Page[Metric], body)
