"""A node's whole assignment as bytes: fragments that many nodes share, under a head of its own."""

import hashlib
import math
from dataclasses import dataclass

from registry.contract.nodes import Assignment
from registry.nodes.directory import Directory
from registry.nodes.fragments import DeploymentFacts, NodeFacts, Targets, build

SHORTEST_REPORT_S = 2.0
REPORTS_PER_S = 100
NO_FRAGMENTS = b"[]}"


def report_every_s(fleet: int) -> float:
    """Time between two reports of a node, so that all of them together send about a hundred a second."""
    return max(SHORTEST_REPORT_S, float(math.ceil(fleet / REPORTS_PER_S)))


@dataclass(frozen=True)
class Answer:
    """`etag` in its header form, a digest of `body`."""

    etag: str
    body: bytes


@dataclass(frozen=True)
class _Shared:
    """One fragment in its two forms, built from `facts`."""

    facts: DeploymentFacts
    published: bytes
    left_out: bytes


class Assignments:
    """Fragments are built once per deployment, target list and state of the deployment."""

    def __init__(self, directory: Directory) -> None:
        self._directory = directory
        self._shared: dict[tuple[str, Targets], _Shared] = {}

    def of(self, node: NodeFacts) -> Answer:
        """From memory alone."""
        directory = self._directory
        head = (
            Assignment(
                node=node.id,
                registry_id=directory.identity.registry_id,
                timeline=directory.identity.timeline,
                report_every_s=report_every_s(directory.fleet),
                draining=node.draining,
                fragments=(),
            )
            .model_dump_json()
            .encode()
        )
        assert head.endswith(NO_FRAGMENTS), "fragments are an assignment's last field"
        parts = [self._fragment(each, node) for each in directory.of(node)]
        body = head.removesuffix(NO_FRAGMENTS) + b"[" + b",".join(parts) + b"]}"
        return Answer(f'"{hashlib.sha256(body).hexdigest()}"', body)

    def _fragment(self, facts: DeploymentFacts, node: NodeFacts) -> bytes:
        key = (facts.id, node.targets)
        shared = self._shared.get(key)
        if shared is None or shared.facts is not facts:
            fragment = build(facts, self._directory.arms, node.targets)
            shared = self._shared[key] = _Shared(
                facts,
                fragment.model_dump_json().encode(),
                fragment.model_copy(update={"published": False}).model_dump_json().encode(),
            )
        return shared.left_out if node.id in facts.left_out else shared.published
