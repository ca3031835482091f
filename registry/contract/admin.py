"""The node's admin socket: a direct rollback while the registry is away, and a look at what the node does.

One JSON object a line in, one a line out, over a unix socket.
"""

from datetime import datetime
from typing import Annotated, Literal

from pydantic import Field

from registry.contract.nodes import DeploymentReport, Override, SlotReport
from registry.contract.routes import Fence
from registry.contract.wire import Command, Wire


class LookAsk(Command):
    kind: Literal["look"] = "look"


class RollBackAsk(Command):
    """`to`: an arm id or a version; without it the arm that a rollback would take. `id` and `base` are
    given when one rollback goes to several nodes, so that all of them record the same one."""

    kind: Literal["roll_back"] = "roll_back"
    deployment: str
    by: str = Field(min_length=1, max_length=128)
    to: str | None = None
    id: str | None = Field(default=None, min_length=1, max_length=64)
    base: Fence | None = None
    at: datetime | None = None


AdminAsk = Annotated[LookAsk | RollBackAsk, Field(discriminator="kind")]


class AdminAnswer(Wire):
    """`error` empty: done. `override`: what was recorded."""

    error: str = ""
    override: Override | None = None
    node: str = ""
    says: str = ""
    slots: tuple[SlotReport, ...] = ()
    deployments: tuple[DeploymentReport, ...] = ()
