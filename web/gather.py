"""Reading what a page about a deployment needs: side by side, each part failing alone."""

import asyncio
from dataclasses import dataclass
from typing import TypeVar

from registry.client import deployments, releases
from registry.contract.deployments import Deployment
from registry.contract.pages import Page
from registry.contract.releases import Receipt, Release
from web.registry import Asker, Failure
from web.revision import revision
from web.views.facts import Facts

T = TypeVar("T")


@dataclass(frozen=True)
class Gathered:
    """`releases` and `receipts`: newest first, as many as were asked for."""

    facts: Facts
    releases: tuple[Release, ...]
    receipts: tuple[Receipt, ...]
    failures: tuple[Failure, ...]
    revision: str


async def gather(ask: Asker, deployment: Deployment, past: int = 1) -> Gathered:
    """The deployment with its nodes and its `past` newest releases and rollbacks. Raises SignedOut."""
    ref = deployment.ref
    asked_status = ask.panel(f"what the nodes of {ref} do", deployments.status(ref))
    asked_releases = ask.panel(f"the releases of {ref}", releases.page(ref, limit=past))
    asked_rollbacks = ask.panel(f"the rollbacks of {ref}", releases.receipts(ref, limit=past))
    status, released, rolled_back = await asyncio.gather(asked_status, asked_releases, asked_rollbacks)
    failures = tuple(part for part in (status, released, rolled_back) if isinstance(part, Failure))
    found, receipts = _items(released), _items(rolled_back)
    facts = Facts(
        deployment,
        None if isinstance(status, Failure) else status,
        found[0] if found else None,
        receipts[0] if receipts else None,
    )
    return Gathered(
        facts,
        found,
        receipts,
        failures,
        revision(deployment, status, *_parts(released), *_parts(rolled_back)),
    )


def _items(page: Page[T] | Failure) -> tuple[T, ...]:
    return () if isinstance(page, Failure) else page.items


def _parts(page: Page[Release] | Page[Receipt] | Failure) -> tuple[Release | Receipt | Failure, ...]:
    return (page,) if isinstance(page, Failure) else page.items
