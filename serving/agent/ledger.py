"""What the agent remembers between two looks, and what of it goes to the disk."""

import logging
import time
from collections.abc import Mapping

from registry.contract.nodes import Fragment, Override
from registry.contract.routes import Fence
from serving.agent.assignment import ReadAssignment
from serving.agent.holdings import merge, override_with
from serving.agent.loading import listing
from serving.agent.snapshot import BadMark, FenceKey, Holding, Moment, fence_key
from serving.agent.state import HeldAssignment, StateDirectory, held

log = logging.getLogger("agent")


class Ledger:
    """Holdings survive a restart; bad digests and confirmed moments belong to one incarnation."""

    def __init__(self, state: StateDirectory, registry_id: str) -> None:
        self._state = state
        self._registry_id = registry_id
        stored = state.assignment()
        self._stored = stored
        self.etag = stored.etag
        self.lease_s = stored.canary_lease_s
        self.report_every_s = stored.report_every_s
        self.draining = stored.draining
        self.holdings: Mapping[str, Holding] = stored.holdings()
        self.bad: dict[str, BadMark] = {}
        self.confirmed: set[Moment] = set()
        self.last_contact: float | None = None
        self._refused: tuple[str, ...] = ()
        self._disk_note: tuple[str, ...] = ()
        now = time.monotonic()
        self._learned: dict[tuple[str, FenceKey], float] = {
            (name, fence_key(item.target.fence)): now for name, item in self.holdings.items()
        }

    @property
    def notes(self) -> tuple[str, ...]:
        """What people should know besides the decision: refused generations, a disk that takes no writes."""
        return (*self._refused, *self._disk_note)

    @property
    def overrides(self) -> tuple[Override, ...]:
        return tuple(item.override for item in self.holdings.values() if item.override is not None)

    def contact(self) -> None:
        """The registry answered: the canary's lease is renewed."""
        self.last_contact = time.monotonic()

    def take(self, read: ReadAssignment, etag: str) -> None:
        """Follow an assignment as far as the fences allow; on the disk before it has any effect."""
        now = time.monotonic()
        assignment = read.assignment
        merged = merge(self.holdings, assignment, self._registry_id)
        refused = (*read.notes, *merged.notes)
        for note in set(refused) - set(self._refused):
            log.warning("%s", note)
        self._refused = refused
        if assignment.registry_id == self._registry_id:
            self.lease_s = assignment.canary_lease_s
            self.report_every_s = assignment.report_every_s
            self.draining = assignment.draining
        self.etag = etag
        self._store(merged.holdings)
        for name, item in merged.holdings.items():
            self._learned.setdefault((name, fence_key(item.target.fence)), now)
        self.holdings = merged.holdings

    def override(self, override: Override) -> str:
        """Put a direct rollback in force, on the disk first. The sentence why not, empty when it is."""
        before = self.holdings.get(override.deployment)
        if before is None:
            known = ", ".join(sorted(self.holdings)) or "none"
            return f"{override.deployment} is not assigned to this node; assigned are: {known}"
        result = override_with(before, override)
        if isinstance(result, str):
            return result
        holdings = {**self.holdings, override.deployment: result}
        self._store(holdings)
        self.holdings = holdings
        log.warning(
            "direct rollback %s of %s to %s by %s", override.id, override.deployment, override.to, override.by
        )
        return ""

    def adopt(self, fragments: tuple[Fragment, ...]) -> None:
        """These are in effect now; the table was sent already, the disk follows."""
        holdings = dict(self.holdings)
        for fragment in fragments:
            before = holdings[fragment.deployment]
            holdings[fragment.deployment] = Holding(before.target, fragment, before.override)
        self.holdings = holdings
        self._store(holdings)

    def mark_bad(self, digest: str, reason: str) -> None:
        """Remember until a retry is asked for, or the next incarnation."""
        log.error("engine %s is bad: %s", digest, reason)
        self.bad[digest] = BadMark(reason, listing(self.holdings, digest))

    def confirm(self, deployment: str, fence: Fence, drained: bool) -> float:
        """Remember a moment; milliseconds since the generation was learned of."""
        self.confirmed = {
            item for item in self.confirmed if item.deployment != deployment or item.fence == fence_key(fence)
        }
        self.confirmed.add(Moment(deployment, fence_key(fence), drained))
        learned = self._learned.get((deployment, fence_key(fence)), time.monotonic())
        self._learned = {
            key: at for key, at in self._learned.items() if key[0] != deployment or key[1] >= fence_key(fence)
        }
        return (time.monotonic() - learned) * 1e3

    def _store(self, holdings: Mapping[str, Holding]) -> None:
        """A disk that takes no writes must not keep a rollback from happening: it is said, and goes on."""
        stored = HeldAssignment(
            etag=self.etag,
            draining=self.draining,
            canary_lease_s=self.lease_s,
            report_every_s=self.report_every_s,
            deployments=held(holdings),
        )
        if stored == self._stored:
            return
        try:
            self._state.keep_assignment(stored)
        except OSError as error:
            log.error("the assignment could not be written: %s", error)
            self._disk_note = (f"the assignment is in memory only, its file can't be written: {error}",)
        else:
            self._stored = stored
            self._disk_note = ()
