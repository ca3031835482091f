"""Events: what happened, to whom it matters, in the order in which it was published.

An event is published once, after the commit of what it tells of. Its id grows with every publication, so a
reader who goes on after the last id it has seen misses nothing and sees nothing twice.
"""

import re
from dataclasses import dataclass
from datetime import datetime
from typing import Annotated, Any, Generic, Literal, TypeVar

from pydantic import Discriminator, Field, StringConstraints, Tag, TypeAdapter

from registry.contract.wire import Wire

D = TypeVar("D", bound=Wire)

EVENT_ID_PATTERN = r"^[1-9][0-9]{0,8}-[0-9]{1,18}$"

EventIdText = Annotated[str, StringConstraints(pattern=EVENT_ID_PATTERN)]


@dataclass(frozen=True, slots=True, order=True)
class EventId:
    """`timeline-number`, compared in that order: a restore from a backup begins a higher timeline."""

    timeline: int
    number: int

    def __str__(self) -> str:
        return f"{self.timeline}-{self.number}"


def parse_event_id(text: str) -> EventId:
    """Raises ValueError with a sentence that says what form is wanted."""
    if not re.match(EVENT_ID_PATTERN, text):
        raise ValueError(f"{text[:64]!r} is not an event's id; write TIMELINE-NUMBER, for example 1-451")
    timeline, _, number = text.partition("-")
    return EventId(int(timeline), int(number))


class EventOf(Wire, Generic[D]):
    """`subject` as in the audit trail. `deployment` (env/name), `environment` and `model` say whom it
    concerns: within one deployment, events come in the order in which things happened."""

    id: EventIdText
    type: str
    subject: str
    deployment: str | None = None
    environment: str | None = None
    model: str | None = None
    at: datetime
    actor: str
    data: D


class VersionMove(Wire):
    version: str
    from_stage: str
    to_stage: str
    reason: str


class BuildMove(Wire):
    build: str
    version: str
    from_phase: str
    to_phase: str
    reason: str


class EngineFacts(Wire):
    """`releasable` false: refused, for the `reasons`."""

    engine: str
    build: str
    version: str
    precision: str
    target: str
    digest: str
    releasable: bool
    unproven: bool
    reasons: tuple[str, ...]


class ReleaseMove(Wire):
    """`share` in basis points; `step` counts from 0, −1 before the first one."""

    release: int
    version: str
    from_phase: str
    to_phase: str
    step: int
    share: int
    reason: str


class ReleaseStep(Wire):
    release: int
    version: str
    step: int
    steps: int
    share: int
    reason: str


class ReleaseHold(Wire):
    """`hold`: held, paused or frozen; empty when it goes on."""

    release: int
    version: str
    hold: str
    step: int
    share: int
    reason: str


class ReleaseApproval(Wire):
    release: int
    version: str
    given: int
    needed: int
    reason: str


class ReleaseVerdict(Wire):
    """Told when its kind changes, not at every look."""

    release: int
    version: str
    kind: str
    sentence: str
    step: int
    canary_requests: int
    stable_requests: int
    pairs: int


class RollbackFacts(Wire):
    """Automation is pinned off with it."""

    rollback: str
    release: int | None
    from_versions: tuple[str, ...]
    to_version: str
    generation: int
    automatic: bool
    reason: str


class RollbackProgress(Wire):
    """Told once, when every node in contact has confirmed. `after_ms`: from the request to the last one."""

    rollback: str
    to_version: str
    generation: int
    nodes: int
    confirmed: int
    unreachable: tuple[str, ...]
    after_ms: float | None


class PinFacts(Wire):
    pinned: bool
    reason: str


class AliasMove(Wire):
    """Version numbers; None at its ends."""

    alias: str
    model: str
    before: int | None
    after: int | None


class NodeFacts(Wire):
    node: str
    name: str
    last_seen_at: datetime | None


class TestFacts(Wire):
    webhook: str


class VersionStageChanged(EventOf[VersionMove]):
    type: Literal["version.stage_changed"] = "version.stage_changed"


class BuildPhaseChanged(EventOf[BuildMove]):
    type: Literal["build.phase_changed"] = "build.phase_changed"


class EngineRecorded(EventOf[EngineFacts]):
    type: Literal["engine.recorded"] = "engine.recorded"


class ReleasePhaseChanged(EventOf[ReleaseMove]):
    type: Literal["release.phase_changed"] = "release.phase_changed"


class ReleaseStepped(EventOf[ReleaseStep]):
    type: Literal["release.stepped"] = "release.stepped"


class ReleaseHoldChanged(EventOf[ReleaseHold]):
    type: Literal["release.hold_changed"] = "release.hold_changed"


class ReleaseApproved(EventOf[ReleaseApproval]):
    type: Literal["release.approved"] = "release.approved"


class ReleaseVerdictChanged(EventOf[ReleaseVerdict]):
    type: Literal["release.verdict_changed"] = "release.verdict_changed"


class RollbackAsked(EventOf[RollbackFacts]):
    type: Literal["rollback.asked"] = "rollback.asked"


class RollbackSwitched(EventOf[RollbackProgress]):
    type: Literal["rollback.switched"] = "rollback.switched"


class RollbackDrained(EventOf[RollbackProgress]):
    type: Literal["rollback.drained"] = "rollback.drained"


class PinChanged(EventOf[PinFacts]):
    type: Literal["deployment.pin_changed"] = "deployment.pin_changed"


class AliasChanged(EventOf[AliasMove]):
    type: Literal["alias.changed"] = "alias.changed"


class NodeEnrolled(EventOf[NodeFacts]):
    type: Literal["node.enrolled"] = "node.enrolled"


class NodeLost(EventOf[NodeFacts]):
    type: Literal["node.lost"] = "node.lost"


class NodeBack(EventOf[NodeFacts]):
    type: Literal["node.back"] = "node.back"


class WebhookTest(EventOf[TestFacts]):
    """Sent to one webhook when someone asks for it; never in the log of events."""

    type: Literal["webhook.test"] = "webhook.test"


class OtherFacts(Wire, extra="allow"):
    """Whatever a newer registry tells."""


class OtherEvent(EventOf[OtherFacts]):
    """Of a type that this reader does not know yet."""


KNOWN: tuple[type[EventOf[Any]], ...] = (
    VersionStageChanged,
    BuildPhaseChanged,
    EngineRecorded,
    ReleasePhaseChanged,
    ReleaseStepped,
    ReleaseHoldChanged,
    ReleaseApproved,
    ReleaseVerdictChanged,
    RollbackAsked,
    RollbackSwitched,
    RollbackDrained,
    PinChanged,
    AliasChanged,
    NodeEnrolled,
    NodeLost,
    NodeBack,
    WebhookTest,
)


def type_of(kind: type[EventOf[Any]]) -> str:
    """The `type` of the events of a class."""
    return str(kind.model_fields["type"].default)


EVENT_TYPES = tuple(type_of(kind) for kind in KNOWN)


def _tag(value: Any) -> str:
    found = value.get("type") if isinstance(value, dict) else getattr(value, "type", None)
    return found if found in EVENT_TYPES else "other"


Event = Annotated[
    Annotated[VersionStageChanged, Tag("version.stage_changed")]
    | Annotated[BuildPhaseChanged, Tag("build.phase_changed")]
    | Annotated[EngineRecorded, Tag("engine.recorded")]
    | Annotated[ReleasePhaseChanged, Tag("release.phase_changed")]
    | Annotated[ReleaseStepped, Tag("release.stepped")]
    | Annotated[ReleaseHoldChanged, Tag("release.hold_changed")]
    | Annotated[ReleaseApproved, Tag("release.approved")]
    | Annotated[ReleaseVerdictChanged, Tag("release.verdict_changed")]
    | Annotated[RollbackAsked, Tag("rollback.asked")]
    | Annotated[RollbackSwitched, Tag("rollback.switched")]
    | Annotated[RollbackDrained, Tag("rollback.drained")]
    | Annotated[PinChanged, Tag("deployment.pin_changed")]
    | Annotated[AliasChanged, Tag("alias.changed")]
    | Annotated[NodeEnrolled, Tag("node.enrolled")]
    | Annotated[NodeLost, Tag("node.lost")]
    | Annotated[NodeBack, Tag("node.back")]
    | Annotated[WebhookTest, Tag("webhook.test")]
    | Annotated[OtherEvent, Tag("other")],
    Discriminator(_tag),
]

EVENT: TypeAdapter[Event] = TypeAdapter(Event)

TypePattern = Annotated[
    str,
    StringConstraints(pattern=r"^[a-z]+\.(?:\*|[a-z_]+)$", max_length=64),
    Field(description="A type, or a kind: release.phase_changed, release.*"),
]
DeploymentPattern = Annotated[
    str,
    StringConstraints(
        pattern=r"^[a-z][a-z0-9-]{0,31}/(?:\*|[a-z0-9](?:[a-z0-9._-]{0,62}[a-z0-9])?)$", max_length=128
    ),
    Field(description="A deployment, or all of an environment: prod/sentiment, prod/*"),
]


class EventPage(Wire):
    """Oldest first. `after`: go on from here; it may be newer than the last item, where others were
    filtered out."""

    items: tuple[Event, ...]
    after: EventIdText
