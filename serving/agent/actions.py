"""What a decision may ask for. Each is done once, by `cycle`; the next snapshot shows what came of it."""

from dataclasses import dataclass
from typing import Literal

from registry.contract.nodes import AssignedArm, DeploymentReport, EngineRef, Fragment, SlotReport
from registry.contract.routes import Fence
from registry.contract.versions import FileEntry
from serving.agent.snapshot import SlotKey
from serving.control import TableEntry


@dataclass(frozen=True, slots=True)
class Fetch:
    """Bring the bytes of an engine, or of a file that a pipeline reads, to the disk."""

    blob: EngineRef | FileEntry


@dataclass(frozen=True, slots=True)
class StartEngine:
    """Verify the bytes on disk, start a process, load, warm. `again`: it was running and died."""

    key: SlotKey
    arm: AssignedArm
    again: bool = False


@dataclass(frozen=True, slots=True)
class StopEngine:
    key: SlotKey
    reason: str


@dataclass(frozen=True, slots=True)
class Adopt:
    """These fragments are in effect from now on (see `Holding.serving`)."""

    fragments: tuple[Fragment, ...]


@dataclass(frozen=True, slots=True)
class Publish:
    """Send the table. `complete`: deployments whose shares are the requested ones, see `Published`."""

    entries: tuple[TableEntry, ...]
    complete: frozenset[str]
    draining: bool


@dataclass(frozen=True, slots=True)
class Confirm:
    deployment: str
    fence: Fence
    moment: Literal["switched", "drained"]


@dataclass(frozen=True, slots=True)
class ForgetBad:
    """The registry asked to try a digest again."""

    digest: str


@dataclass(frozen=True, slots=True)
class Evict:
    """Delete an engine's bytes that nothing held names."""

    digest: str


Action = Fetch | StartEngine | StopEngine | Adopt | Publish | Confirm | ForgetBad | Evict


@dataclass(frozen=True, slots=True)
class Decision:
    """`slots` and `deployments` are what the next report says; `wake_at`: look again then at the latest.

    `says` is `steady`, what holds, and behind it what is done now.
    """

    actions: tuple[Action, ...]
    slots: tuple[SlotReport, ...]
    deployments: tuple[DeploymentReport, ...]
    says: str
    steady: str
    wake_at: float | None
