"""Calls on deployments, their routes and their windows. `ref` is `env/name`."""

from registry.client.call import Call, path, query
from registry.contract.audit import Served
from registry.contract.deployments import (
    Deployment,
    DeploymentCreate,
    DeploymentPatch,
    DeploymentStatus,
    Pin,
    PublishedNode,
)
from registry.contract.identity import NO_DEPLOYMENT
from registry.contract.pages import Page
from registry.contract.routes import Route
from registry.contract.verdicts import DriftWindow
from registry.contract.wire import Command


def at(ref: str, *more: str | int) -> str:
    """Path below one deployment. Raises ValueError for what can't be the name of one."""
    environment, _, name = ref.partition("/")
    if not environment or not name:
        raise ValueError(NO_DEPLOYMENT.format(ref))
    return path("deployments", environment, name, *more)


def create(body: DeploymentCreate) -> Call[Deployment]:
    return Call("POST", path("deployments"), Deployment, body)


def get(ref: str) -> Call[Deployment]:
    return Call("GET", at(ref), Deployment)


def page(
    environment: str | None = None, page_token: str | None = None, limit: int = 100
) -> Call[Page[Deployment]]:
    return Call(
        "GET",
        path("deployments"),
        Page[Deployment],
        query=query(environment=environment, page_token=page_token, limit=limit),
    )


def patch(ref: str, body: DeploymentPatch, revision: int) -> Call[Deployment]:
    return Call("PATCH", at(ref), Deployment, body, if_match=revision)


def status(ref: str) -> Call[DeploymentStatus]:
    return Call("GET", at(ref, "status"), DeploymentStatus)


def nodes(ref: str) -> Call[tuple[PublishedNode, ...]]:
    """Prometheus http_sd form: the nodes that can answer every arm."""
    return Call("GET", at(ref, "nodes"), tuple[PublishedNode, ...])


def routes(ref: str, page_token: str | None = None, limit: int = 100) -> Call[Page[Route]]:
    """Newest first."""
    return Call("GET", at(ref, "routes"), Page[Route], query=query(page_token=page_token, limit=limit))


def pin(ref: str, body: Pin) -> Call[Deployment]:
    return Call("POST", at(ref, "pin"), Deployment, body)


def unpin(ref: str) -> Call[Deployment]:
    return Call("POST", at(ref, "unpin"), Deployment, Command())


def drift(ref: str, since_s: float = 600) -> Call[DriftWindow]:
    """Canary, stable and reference side by side over the last `since_s` seconds."""
    return Call("GET", at(ref, "drift"), DriftWindow, query=query(since_s=since_s))


def served(ref: str, when: str) -> Call[Served]:
    """`when` is RFC 3339."""
    return Call("GET", at(ref, "served"), Served, query=query(at=when))
