"""The routing state of a worker: built whole from one Table, swapped in by one assignment, never changed."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from registry.contract.identity import parse_deployment, parse_version
from registry.contract.routes import ArmRole
from serving.control import ArmEntry, Table, TableEntry
from serving.gateway.book import Book
from serving.gateway.exchange import Standing
from serving.gateway.slot import Slot
from serving.gateway.split import Split
from serving.telemetry.observables import Watcher


@dataclass(frozen=True, slots=True, eq=False)
class Arm:
    """One arm as one generation routes it. `headers` are those of every answer that it gives."""

    entry: ArmEntry
    slot: Slot
    book: Book
    watcher: Watcher
    headers: Standing
    version_tail: str
    """`2@int8-static`: the version without its model's name, as the protocol's paths have it."""

    @property
    def loaded(self) -> bool:
        return self.slot.lane.has_engine

    def is_version(self, wanted: str) -> bool:
        """`2`, `2@int8-static`, or the whole `model@2@int8-static`."""
        number = str(parse_version(self.entry.version).number)
        return wanted in (self.entry.version, self.version_tail, number)


@dataclass(frozen=True, slots=True, eq=False)
class Deployment:
    """`name` is what the protocol's paths call the model. `arms[split.choose(value)]` owns a value."""

    entry: TableEntry
    name: str
    arms: tuple[Arm, ...]
    split: Split
    key_header: bytes | None

    @property
    def stable(self) -> Arm | None:
        return next((arm for arm in self.arms if arm.entry.role is ArmRole.STABLE), None)

    @property
    def serving(self) -> tuple[Arm, ...]:
        """Arms with a share."""
        return tuple(self.arms[at] for at in self.split.order)

    def arm(self, name: str) -> Arm | None:
        return next((arm for arm in self.arms if arm.entry.arm == name), None)

    def named(self, version: str) -> Arm | None:
        """The loaded arm of a version that a caller names; of several precisions that with most traffic."""
        found = [arm for arm in self.arms if arm.is_version(version) and arm.entry.socket is not None]
        return max(found, key=lambda arm: arm.entry.share, default=None)


@dataclass(frozen=True, slots=True, eq=False)
class Routing:
    """`seq` -1: no table came yet."""

    seq: int
    registry_id: str
    draining: bool
    deployments: Mapping[str, Deployment]


EMPTY = Routing(-1, "", False, {})


def build(
    table: Table,
    slot_of: Callable[[TableEntry, ArmEntry], Slot],
    book_of: Callable[[TableEntry, ArmEntry], Book],
) -> Routing:
    """Deployments by their short names. Raises PipelineMismatch for a contract that contradicts itself."""
    deployments: dict[str, Deployment] = {}
    for entry in table.entries:
        name = parse_deployment(entry.deployment).name
        arms = tuple(
            Arm(
                entry=arm,
                slot=slot_of(entry, arm),
                book=book_of(entry, arm),
                watcher=Watcher(entry.edges, arm.contract),
                headers=_headers(entry, arm),
                version_tail=arm.version.partition("@")[2],
            )
            for arm in entry.arms
        )
        header = entry.unit.header if entry.unit.kind == "key" else None
        deployments[name] = Deployment(
            entry=entry,
            name=name,
            arms=arms,
            split=Split.of(entry.salt, [(arm.role, arm.share) for arm in entry.arms]),
            key_header=header.lower().encode("latin-1") if header else None,
        )
    return Routing(table.seq, table.registry_id, table.draining, deployments)


def _headers(entry: TableEntry, arm: ArmEntry) -> Standing:
    headers = (
        (b"x-slipway-deployment", entry.deployment.encode("latin-1")),
        (b"x-slipway-version", arm.version.encode("latin-1")),
        (b"x-slipway-arm", arm.arm.encode("latin-1")),
        (b"x-slipway-engine", arm.engine.encode("latin-1")),
        (b"x-slipway-role", arm.role.value.encode("latin-1")),
    )
    return Standing(headers)
