"""What the agent knows at one moment: the whole input of a decision. Times are monotonic seconds."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from registry.contract.nodes import AssignedArm, Fragment, Override, SlotPhase
from registry.contract.routes import Fence
from serving.control import TableEntry

IN_PROGRESS = frozenset({SlotPhase.FETCHING, SlotPhase.VERIFYING, SlotPhase.LOADING, SlotPhase.WARMING})

FenceKey = tuple[str, int, int]


def fence_key(fence: Fence) -> FenceKey:
    """A fence as a value that can stand in a set."""
    return (fence.registry_id, fence.timeline, fence.generation)


@dataclass(frozen=True, slots=True, order=True)
class SlotKey:
    """One arm of one deployment: two deployments never share an engine process."""

    deployment: str
    arm: str


@dataclass(frozen=True, slots=True)
class Slot:
    """One engine process, present or past. `retry_at` of a failed one: when it may be started again.

    `died_loading`: the process ended by itself before it was ready.
    """

    key: SlotKey
    spec: AssignedArm
    phase: SlotPhase
    reason: str = ""
    socket: str | None = None
    retry_at: float | None = None
    memory_bytes: int | None = None
    load_ms: Mapping[str, float] = field(default_factory=dict)

    @property
    def ready(self) -> bool:
        return self.phase is SlotPhase.READY and self.socket is not None


@dataclass(frozen=True, slots=True)
class Download:
    """One digest on its way: running with `progress` in [0, 1], or failed until `retry_at`."""

    progress: float
    reason: str = ""
    retry_at: float | None = None

    @property
    def running(self) -> bool:
        return self.retry_at is None


@dataclass(frozen=True, slots=True)
class BadMark:
    """A digest that failed to verify or to load. `listed`: the generations that already asked for a
    retry when it failed, so that one `retry_bad` gives one retry."""

    reason: str
    listed: frozenset[tuple[str, FenceKey]] = frozenset()


@dataclass(frozen=True, slots=True)
class Holding:
    """What the node holds of one deployment.

    `target` is what the registry wants (overrides applied), `serving` the fragment whose shares are in
    effect: it is replaced once every arm that `target` gives a share to is ready.
    """

    target: Fragment
    serving: Fragment | None = None
    override: Override | None = None


@dataclass(frozen=True, slots=True)
class Published:
    """A deployment's entry in the last table. `seq`: the table it first stood in, in this form.

    `complete`: its shares are the requested ones, none is moved by a crash or by an expired lease.
    """

    entry: TableEntry
    seq: int
    complete: bool


@dataclass(frozen=True, slots=True)
class Moment:
    """One confirmed moment of one generation."""

    deployment: str
    fence: FenceKey
    drained: bool


@dataclass(frozen=True, slots=True)
class Snapshot:
    """`taken`: the lowest table that every live gateway worker has taken, None while none has.

    `last_contact`: when the registry last answered this incarnation. `loads`: engines that may load at
    the same time. `memory_free` in bytes. `disk`: digests whose bytes are here, the newest first.
    """

    now: float
    last_contact: float | None
    lease_s: float
    holdings: Mapping[str, Holding]
    slots: Mapping[SlotKey, Slot]
    disk: tuple[str, ...]
    downloads: Mapping[str, Download]
    bad: Mapping[str, BadMark]
    memory_free: int
    published: Mapping[str, Published]
    taken: int | None
    drained: Mapping[str, Fence]
    confirmed: frozenset[Moment] = frozenset()
    draining: bool = False
    published_draining: bool = False
    loads: int = 1
    notes: tuple[str, ...] = ()

    @property
    def leased(self) -> bool:
        """True while a canary may have traffic: the registry answered within the lease."""
        return self.last_contact is not None and self.now - self.last_contact < self.lease_s
