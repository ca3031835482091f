"""The node's admin socket, `<state>/run/admin.sock`: a direct rollback while the registry is away, and a
look at what the node does.

One JSON object a line in, one a line out. Only the node's own user and root get through: the socket lies
in a folder of mode 0700.
"""

import asyncio
import contextlib
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from uuid import uuid4

from pydantic import TypeAdapter, ValidationError

from registry.contract.admin import AdminAnswer, AdminAsk, LookAsk, RollBackAsk
from registry.contract.nodes import Override
from registry.contract.routes import ArmRole
from serving.agent.shares import requested
from serving.agent.snapshot import Holding

LINE_LIMIT = 1 << 16


_ASK: TypeAdapter[LookAsk | RollBackAsk] = TypeAdapter(AdminAsk)


def override_of(ask: RollBackAsk, held: Holding | None) -> Override | str:
    """The override that is meant, or the sentence why there is none."""
    if held is None:
        return f"{ask.deployment} is not assigned to this node"
    versions = {arm.arm: arm.version for arm in held.target.arms}
    to = ask.to or good_arm(held)
    if to is None:
        return f"{ask.deployment} has no earlier arm to go to; name one of: {_names(versions)}"
    matching = [arm for arm, version in versions.items() if to in (arm, version)]
    if len(matching) != 1:
        return f"{to!r} is not an arm of {ask.deployment} on this node; known are: {_names(versions)}"
    return Override(
        id=ask.id or f"ovr_{uuid4().hex}",
        deployment=ask.deployment,
        base=ask.base or held.target.fence,
        to=matching[0],
        at=ask.at or datetime.now(UTC),
        by=ask.by,
    )


def good_arm(held: Holding) -> str | None:
    """Where a rollback without a target goes: during a trial the stable arm, else the standby."""
    shares = requested(held.target)
    by_role = {arm.role: arm.arm for arm in held.target.arms}
    stable = by_role.get(ArmRole.STABLE)
    if stable is not None and set(shares) != {stable}:
        return stable
    return by_role.get(ArmRole.STANDBY)


class AdminSocket:
    """`holding(deployment)`, `override(override) -> error`, `look()`: the agent's side."""

    def __init__(
        self,
        path: Path,
        holding: Callable[[str], Holding | None],
        override: Callable[[Override], str],
        look: Callable[[], AdminAnswer],
    ) -> None:
        self._path = path
        self._holding = holding
        self._override = override
        self._look = look
        self._server: asyncio.Server | None = None

    async def start(self) -> None:
        self._server = await asyncio.start_unix_server(self._serve, self._path, limit=LINE_LIMIT)
        self._path.chmod(0o600)

    def close(self) -> None:
        if self._server is not None:
            self._server.close()
        self._path.unlink(missing_ok=True)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(ConnectionError, ValueError):
            while line := await reader.readline():
                writer.write(self._answer(line).model_dump_json().encode() + b"\n")
                await writer.drain()
        writer.close()

    def _answer(self, line: bytes) -> AdminAnswer:
        try:
            ask = _ASK.validate_json(line)
        except ValidationError as error:
            return AdminAnswer(error=f"not a request of this socket: {error.errors(include_url=False)[:2]}")
        if isinstance(ask, LookAsk):
            return self._look()
        override = override_of(ask, self._holding(ask.deployment))
        if isinstance(override, str):
            return AdminAnswer(error=override)
        refused = self._override(override)
        return AdminAnswer(error=refused, override=None if refused else override)


def _names(versions: dict[str, str]) -> str:
    return ", ".join(f"{version} ({arm[:16]})" for arm, version in versions.items()) or "none"
