"""Fragments, slots and snapshots for the agent's tests."""

from collections.abc import Mapping, Sequence
from hashlib import sha256

from registry.contract.nodes import AssignedArm, Assignment, EngineRef, Fragment, SlotPhase
from registry.contract.routes import ArmRole, Fence, RoutingUnit
from registry.contract.versions import BatchRule, Dtype, Signature, TensorSpec, VersionContract
from serving.agent.snapshot import Holding, Slot, SlotKey, Snapshot

REGISTRY = "reg_1"
MB = 1_000_000
CONTRACT = VersionContract(
    signature=Signature(
        inputs=(TensorSpec(name="x", dtype=Dtype.FP32, shape=("batch", 4)),),
        outputs=(TensorSpec(name="scores", dtype=Dtype.FP32, shape=("batch", 3)),),
    ),
    batch=BatchRule(max_rows=4),
)


def arm_id(number: int) -> str:
    return f"arm-{number:064x}"


def digest_of(content: bytes) -> str:
    return f"sha256-{sha256(content).hexdigest()}"


def engine(number: int, memory: int = 10 * MB) -> EngineRef:
    return EngineRef(
        digest=f"sha256-{number:064x}",
        size=1000,
        target="ort.cpu",
        precision="fp32",
        memory_bytes=memory,
        batchable=True,
    )


def arm(
    number: int, role: ArmRole = ArmRole.STABLE, share: int = 0, ref: EngineRef | None = None
) -> AssignedArm:
    return AssignedArm(
        arm=arm_id(number),
        version=f"m@{number}@fp32",
        role=role,
        share=share,
        engine=ref or engine(number),
        contract=CONTRACT,
    )


def fence(generation: int, timeline: int = 1, registry: str = REGISTRY) -> Fence:
    return Fence(registry_id=registry, timeline=timeline, generation=generation)


def fragment(
    generation: int,
    arms: Sequence[AssignedArm],
    *,
    deployment: str = "prod/m",
    keep: Sequence[int] = (),
    retry_bad: Sequence[str] = (),
    resolves: Sequence[str] = (),
    timeline: int = 1,
    registry: str = REGISTRY,
) -> Fragment:
    return Fragment(
        deployment=deployment,
        model="m",
        fence=fence(generation, timeline, registry),
        unit=RoutingUnit(),
        salt="salt",
        arms=tuple(arms),
        keep=tuple(arm_id(number) for number in keep),
        retry_bad=tuple(retry_bad),
        resolves=tuple(resolves),
    )


def assignment(*fragments: Fragment, registry: str = REGISTRY, lease_s: float = 120) -> Assignment:
    return Assignment(
        node="nod_1",
        registry_id=registry,
        timeline=1,
        report_every_s=0.5,
        canary_lease_s=lease_s,
        fragments=fragments,
    )


def ready(number: int, deployment: str = "prod/m") -> Slot:
    key = SlotKey(deployment, arm_id(number))
    return Slot(key, arm(number), SlotPhase.READY, socket=f"/run/e{number}.sock")


def snapshot(
    holdings: Mapping[str, Holding],
    slots: Sequence[Slot] = (),
    disk: Sequence[int] = (),
    now: float = 1000.0,
    last_contact: float | None = 1000.0,
    memory_free: int = 1000 * MB,
) -> Snapshot:
    """No gateway has anything yet; `replace` what a test is about."""
    return Snapshot(
        now=now,
        last_contact=last_contact,
        lease_s=120,
        holdings=holdings,
        slots={slot.key: slot for slot in slots},
        disk=tuple(engine(number).digest for number in disk),
        downloads={},
        bad={},
        memory_free=memory_free,
        published={},
        taken=None,
        drained={},
    )
