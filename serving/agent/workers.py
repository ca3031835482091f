"""What the agent knows of each gateway worker, and what all of them together have reached. No I/O."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from registry.contract.routes import Fence
from serving.agent.snapshot import fence_key
from serving.control import Table

SILENT_S = 1.0
FIRST_TABLE_S = 10.0


@dataclass(slots=True)
class Worker:
    """`sent`: the last table that was sent to it; `taken`: the last one that it routes by.

    `drained`: per deployment, the highest generation below which nothing of its own is inside.
    """

    number: int
    pid: int = 0
    sent: int | None = None
    taken: int | None = None
    overdue_at: float | None = None
    drained: dict[str, Fence] = field(default_factory=dict)

    def send(self, table: Table, now: float) -> None:
        """A worker that starts may take longer over its first table. It never routed a deployment by a
        generation older than the first it was sent, so that nothing below that can be inside."""
        for entry in table.entries:
            self.drained.setdefault(entry.deployment, entry.fence)
        if self.sent is None:
            self.overdue_at = now + FIRST_TABLE_S
        elif self.taken is None or self.overdue_at is None:
            self.overdue_at = now + SILENT_S
        self.sent = table.seq

    def take(self, seq: int) -> None:
        self.taken = seq
        if self.sent is not None and seq >= self.sent:
            self.overdue_at = None

    def drain(self, deployment: str, fence: Fence) -> None:
        if fence.supersedes(self.drained.get(deployment)):
            self.drained[deployment] = fence


def taken_by_all(workers: Iterable[Worker]) -> int | None:
    """The lowest table that everyone who was sent one routes by; None while someone has none."""
    reached = [worker.taken for worker in workers if worker.sent is not None]
    if not reached or any(seq is None for seq in reached):
        return None
    return min(seq for seq in reached if seq is not None)


def drained_by_all(workers: Iterable[Worker]) -> Mapping[str, Fence]:
    """Per deployment, the generation that the slowest of them has drained to."""
    lowest: dict[str, Fence] = {}
    present = [worker for worker in workers if worker.sent is not None]
    names = {name for worker in present for name in worker.drained}
    for name in names:
        fences = [worker.drained.get(name) for worker in present]
        known = [fence for fence in fences if fence is not None]
        if len(known) == len(present):
            lowest[name] = min(known, key=fence_key)
    return lowest


def overdue(workers: Iterable[Worker], now: float) -> list[Worker]:
    """Those that were sent a table and stayed silent too long."""
    return [worker for worker in workers if worker.overdue_at is not None and now >= worker.overdue_at]
