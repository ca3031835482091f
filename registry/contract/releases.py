"""Releases: moving a deployment to another arm by a plan."""

from datetime import datetime
from enum import StrEnum
from typing import Literal

from pydantic import Field

from registry.contract.deployments import Arm, Plan, PlanStep
from registry.contract.tokens import Role
from registry.contract.verdicts import Verdict
from registry.contract.wire import Command, Whole, Wire, added


class ReleasePhase(StrEnum):
    DRAFT = "draft"
    AWAITING_APPROVAL = "awaiting_approval"
    PREPARING = "preparing"
    RUNNING = "running"
    COMPLETING = "completing"
    COMPLETED = "completed"
    ROLLING_BACK = "rolling_back"
    ROLLED_BACK = "rolled_back"
    ABORTED = "aborted"
    SUPERSEDED = "superseded"
    FAILED = "failed"


class Hold(StrEnum):
    """Why a running release does not move on. Empty string in `Release.hold`: it may."""

    HELD = "held"
    PAUSED = "paused"
    FROZEN = "frozen"


class Promote(Command):
    """`version`: MODEL@NUMBER or MODEL@NUMBER@PRECISION (default: the best released precision, fp32).

    `plan`: instead of the policy's; a first release has one step all the same. `supersede` ends the active
    release of the deployment first; without it a second one answers 409.
    """

    version: str
    plan: Plan | None = None
    reason: str = Field(default="", max_length=1024)
    supersede: bool = False


class Transition(Command):
    """Body of advance, pause, resume, abort, approve, withdraw."""

    reason: str = Field(default="", max_length=1024)
    expected_revision: Whole | None = None


class Reject(Command):
    """One person's no ends a release that awaits approval; it needs a reason."""

    reason: str = Field(min_length=1, max_length=1024)
    expected_revision: Whole | None = None


class Guard(Wire):
    """One start guard: `skipped` where a first release has nothing to compare with. `warning`: it passes, and
    its reason is to be read before the release goes on."""

    name: str
    outcome: Literal["passed", "failed", "skipped"]
    reason: str
    warning: bool = added(False)


class StepChange(Wire):
    """One entry of a release's history. `by_command`: a person moved it, not the evidence."""

    at: datetime
    phase: ReleasePhase
    hold: str
    step: int
    share: int
    cause: str
    actor: str
    reason: str
    by_command: bool
    generation: int | None


class Approval(Wire):
    """`arm` is what was approved; when the release's arm changes, the approvals of the old one are void and
    not listed any more."""

    by: str
    at: datetime
    reason: str
    arm: str | None = None


class Release(Wire):
    deployment: str
    number: int
    id: str
    arm: Arm
    from_arm: Arm | None
    phase: ReleasePhase
    hold: Hold | Literal[""]
    reason: str
    since: datetime
    step: int
    share: int
    plan: tuple[PlanStep, ...]
    guards: tuple[Guard, ...]
    approvals: tuple[Approval, ...]
    approvals_needed: int
    approver_role: Role = Role.APPROVER
    verdict: Verdict | None
    laggards: tuple[str, ...] = ()
    history: tuple[StepChange, ...] = ()
    evidence_from: str | None = None
    revision: int
    created_at: datetime
    created_by: str


class RollBack(Command):
    """Every field may be left out; no If-Match, no key. `wait` in seconds: answer when all confirmed.

    `allow_unfit`: also to a version that is quarantined or archived, which is refused otherwise.
    """

    to: str | None = Field(default=None, description="MODEL@NUMBER[@PRECISION] or an arm id")
    reason: str = Field(default="", max_length=1024)
    expected_generation: Whole | None = None
    allow_unfit: bool = False
    wait: float | None = Field(default=None, ge=0, le=30)


class ReceiptNode(Wire):
    """Times in ms after the request, by the registry's arrival clock; `cold`: it had to load first."""

    node: str
    name: str
    state: Literal["waiting", "switched", "drained", "unreachable"]
    switched_ms: float | None = None
    drained_ms: float | None = None
    unreachable_since: datetime | None = None
    cold: bool = False
    last_known_version: str | None = None


class Receipt(Wire):
    """The permanent record of a rollback. `final` is the closing sentence, empty while nodes are awaited."""

    id: str
    deployment: str
    generation: int
    asked_at: datetime
    asked_by: str
    reason: str
    automatic: bool
    already: bool = False
    release: int | None
    from_arms: tuple[Arm, ...]
    to_arm: Arm
    nodes: tuple[ReceiptNode, ...]
    all_switched: bool
    all_drained: bool
    final: str
    notes: tuple[str, ...] = ()


class ReceiptNote(Command):
    text: str = Field(min_length=1, max_length=4096)
