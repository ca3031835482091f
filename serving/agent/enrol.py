"""Becoming a node: once, with a one-time token; later starts use what was kept then."""

import asyncio
import logging
import socket

from registry.client import AsyncClient, Unreachable, nodes
from registry.contract.nodes import Enrol
from serving.agent.hardware import hardware
from serving.agent.state import Identity, StateDirectory, StateError
from serving.runtimes.targets import local_targets
from serving.settings import NodeSettings

PAUSE_S = 2.0

log = logging.getLogger("agent")


async def identity(settings: NodeSettings, state: StateDirectory, address: str) -> Identity:
    """From the disk, or by enrolling; waits for the registry as long as it takes.

    Raises StateError (no identity and no token), ApiError (the registry refuses the token).
    """
    known = state.identity()
    if known is not None:
        return known
    if settings.enrol_token is None:
        raise StateError(
            f"{state.root} holds no node yet: start once with --enrol-token (an administrator gets one with "
            f"`slipway node invite ENVIRONMENT`)"
        )
    body = Enrol(
        name=settings.name or _host_name(),
        targets=local_targets(),
        labels=settings.labels,
        hardware=hardware(),
        address=address,
    )
    async with AsyncClient(settings.registry, settings.enrol_token.get_secret_value()) as client:
        while True:
            try:
                enrolled = await client(nodes.enrol(body))
                break
            except Unreachable as error:
                log.warning("enrolment waits: %s", error)
                await asyncio.sleep(PAUSE_S)
    fresh = Identity(
        node=enrolled.node,
        environment=enrolled.environment,
        registry_id=enrolled.registry_id,
        token=enrolled.token,
    )
    state.keep_identity(fresh)
    log.info("enrolled as %s in %s", fresh.node, fresh.environment)
    return fresh


def _host_name() -> str:
    """The machine's name in the form that the registry takes."""
    plain = "".join(char if char.isalnum() else "-" for char in socket.gethostname().lower())
    return plain.strip("-")[:64].strip("-") or "node"
