"""Contracts of the tiny models, and the table entries that a test gives its gateway."""

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from registry.contract.counters import CounterEdges, ObservableEdges
from registry.contract.pipeline import ByteWindow, Classify, PipelineSpec
from registry.contract.routes import ArmRole, Fence, RoutingUnit
from registry.contract.versions import (
    BatchRule,
    Dtype,
    Observable,
    Signature,
    TensorSpec,
    VersionContract,
)
from serving.control import ArmEntry, TableEntry

LABELS = ("ant", "bee", "cat")

CLASSIFIER = VersionContract(
    signature=Signature(
        inputs=(TensorSpec(name="x", dtype=Dtype.FP32, shape=("batch", 4)),),
        outputs=(TensorSpec(name="scores", dtype=Dtype.FP32, shape=("batch", 3)),),
    ),
    pipeline=PipelineSpec(post=(Classify(output="scores", labels=LABELS),)),
    observables=(
        Observable(name="label", kind="class", source="label"),
        Observable(name="score", kind="score", source="score"),
    ),
)
ADDER = VersionContract(
    signature=Signature(
        inputs=(
            TensorSpec(name="a", dtype=Dtype.FP32, shape=("batch", "size")),
            TensorSpec(name="b", dtype=Dtype.FP32, shape=("batch", "size")),
        ),
        outputs=(TensorSpec(name="sum", dtype=Dtype.FP32, shape=("batch", "size")),),
    )
)
SLOW = VersionContract(
    signature=Signature(
        inputs=(TensorSpec(name="x", dtype=Dtype.FP32, shape=("batch", 4)),),
        outputs=(TensorSpec(name="y", dtype=Dtype.FP32, shape=("batch", 4)),),
    )
)
FAILING = VersionContract(
    signature=Signature(
        inputs=(TensorSpec(name="index", dtype=Dtype.INT64, shape=("batch", 1)),),
        outputs=(TensorSpec(name="y", dtype=Dtype.FP32, shape=("batch", 1)),),
    )
)
TEXT = VersionContract(
    signature=Signature(
        inputs=(TensorSpec(name="x", dtype=Dtype.BYTES, shape=("batch", "size")),),
        outputs=(TensorSpec(name="y", dtype=Dtype.BYTES, shape=("batch", "size")),),
    )
)


def window(offset: int = 0) -> VersionContract:
    """Of `byte_window_classifier`: 16 tokens, 4 classes."""
    return VersionContract(
        signature=Signature(
            inputs=(TensorSpec(name="bytes", dtype=Dtype.INT32, shape=("batch", 16)),),
            outputs=(TensorSpec(name="scores", dtype=Dtype.FP32, shape=("batch", 4)),),
        ),
        pipeline=PipelineSpec(
            pre=(ByteWindow(output="bytes", head=8, tail=8, block=64, pad=0, offset=offset),),
            post=(Classify(output="scores", labels=("a", "b", "c", "d")),),
        ),
        observables=(
            Observable(name="label", kind="class", source="label"),
            Observable(name="score", kind="score", source="score"),
        ),
    )


def edges(labels: tuple[str, ...] = LABELS, low: float | None = None) -> CounterEdges:
    return CounterEdges(
        observables=(
            ObservableEdges(name="label", kind="class", labels=labels),
            ObservableEdges(name="score", kind="score", edges=(0.25, 0.5, 0.75), low=low),
        )
    )


def arm_id(name: str) -> str:
    return f"arm-{hashlib.sha256(name.encode()).hexdigest()}"


@dataclass(frozen=True)
class ArmSpec:
    """One arm of a test's table; `name` makes its id."""

    name: str
    socket: str | None
    contract: VersionContract
    role: ArmRole = ArmRole.STABLE
    share: int = 10_000
    version: str = "m@1@fp32"
    batchable: bool = True
    max_rows: int | None = None
    files: Mapping[str, str] = field(default_factory=dict)

    def entry(self) -> ArmEntry:
        contract = self.contract
        if self.max_rows is not None:
            contract = contract.model_copy(update={"batch": BatchRule(max_rows=self.max_rows)})
        return ArmEntry(
            arm=arm_id(self.name),
            version=self.version,
            role=self.role,
            share=self.share,
            engine=f"sha256-{hashlib.sha256(self.name.encode()).hexdigest()}",
            socket=self.socket,
            batchable=self.batchable,
            contract=contract,
            files=dict(self.files),
        )

    def having(self, share: int, role: ArmRole | None = None) -> "ArmSpec":
        return replace(self, share=share, role=role or self.role)


@dataclass(frozen=True)
class EntrySpec:
    arms: tuple[ArmSpec, ...]
    name: str = "m"
    generation: int = 1
    unit: RoutingUnit = field(default_factory=RoutingUnit)
    salt: str = "salt"
    mirror: int = 0
    edges: CounterEdges = field(default_factory=CounterEdges)
    drain_limit_s: float = 5

    def entry(self) -> TableEntry:
        return TableEntry(
            deployment=f"test/{self.name}",
            model="m",
            fence=Fence(registry_id="reg_1", timeline=1, generation=self.generation),
            unit=self.unit,
            salt=self.salt,
            arms=tuple(arm.entry() for arm in self.arms),
            mirror=self.mirror,
            edges=self.edges,
            drain_limit_s=self.drain_limit_s,
            estimate_s=3,
        )
