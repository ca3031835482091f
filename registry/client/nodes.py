"""Calls of nodes, and on them."""

from registry.client.call import Call, path, query
from registry.contract.nodes import (
    Applied,
    Enrol,
    Enrolled,
    Enrolment,
    EnrolmentCreate,
    Invitation,
    Node,
    Report,
)
from registry.contract.pages import Page
from registry.contract.wire import Command


def invite(body: EnrolmentCreate) -> Call[Enrolment]:
    """A one-time token for one node."""
    return Call("POST", path("enrolments"), Enrolment, body)


def invitations(
    environment: str | None = None, page_token: str | None = None, limit: int = 100
) -> Call[Page[Invitation]]:
    """One-time tokens that nobody has used yet."""
    return Call(
        "GET",
        path("enrolments"),
        Page[Invitation],
        query=query(environment=environment, page_token=page_token, limit=limit),
    )


def uninvite(invitation: str) -> Call[None]:
    """No node enrols with it any more."""
    return Call("DELETE", path("enrolments", invitation), None)


def enrol(body: Enrol) -> Call[Enrolled]:
    """Sent with the one-time token as bearer."""
    return Call("POST", path("nodes"), Enrolled, body)


def get(node: str) -> Call[Node]:
    return Call("GET", path("nodes", node), Node)


def page(environment: str | None = None, page_token: str | None = None, limit: int = 100) -> Call[Page[Node]]:
    return Call(
        "GET",
        path("nodes"),
        Page[Node],
        query=query(environment=environment, page_token=page_token, limit=limit),
    )


def drain(node: str) -> Call[Node]:
    return Call("POST", path("nodes", node, "drain"), Node, Command())


def undrain(node: str) -> Call[Node]:
    return Call("POST", path("nodes", node, "undrain"), Node, Command())


def report(node: str, body: Report) -> Call[None]:
    return Call("POST", path("nodes", node, "reports"), None, body, timeout_s=10)


def applied(node: str, body: Applied) -> Call[None]:
    return Call("POST", path("nodes", node, "applied"), None, body, timeout_s=5)
