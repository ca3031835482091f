"""A task while this worker holds its lease: renewed in the background, and dropped the moment it is lost."""

import logging
import threading
import time
from collections.abc import Callable
from dataclasses import replace
from types import TracebackType
from typing import Self, TypeVar

from registry.client import ApiError, Call, Client, Unreachable, tasks
from registry.client.transfer import DigestMismatch, TransferFailed, UploadRejected
from registry.contract.problems import ProblemType
from registry.contract.tasks import Fenced, Lease, Task, TaskPhase

T = TypeVar("T")

FIRST_PAUSE_S = 0.2
LONGEST_PAUSE_S = 5.0
# How long the object store may be away; the lease is renewed meanwhile.
MOVE_S = 300.0

logger = logging.getLogger(__name__)


class LeaseLost(Exception):
    """Someone else may hold the task by now, or it is over: nothing more may be written for it."""


class Held:
    """`lost` is set once and for all; a write after that raises LeaseLost without being sent."""

    def __init__(self, client: Client, lease: Lease) -> None:
        self._client = client
        self.lease = lease
        self.lost = threading.Event()
        self.why = ""
        self._over = threading.Event()
        self._until = time.monotonic() + lease.lease_s
        self._renewer = threading.Thread(target=self._renew, name=f"renew-{lease.task}", daemon=True)

    @property
    def fence(self) -> int:
        return self.lease.fence

    def __enter__(self) -> Self:
        self._renewer.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._over.set()
        self._renewer.join()

    def send(self, call: Call[T]) -> T:
        """Sends until an answer comes, for as long as the lease is held.

        Raises LeaseLost, or ApiError when the registry refuses for another reason.
        """
        return self.patiently(f"{call.method} {call.path}", lambda: self._client(call))

    def patiently(self, what: str, work: Callable[[], T]) -> T:
        """Tries until the registry and the object store let it: the first for as long as the lease is held,
        the second for MOVE_S. Raises LeaseLost, ApiError for a refusal, TransferFailed, what `work` raises.
        """
        pause = FIRST_PAUSE_S
        until = time.monotonic() + MOVE_S
        while True:
            if self.lost.is_set():
                raise LeaseLost(self.why)
            try:
                return work()
            except Unreachable as error:
                problem = str(error)
            except (UploadRejected, DigestMismatch):
                raise
            except TransferFailed as error:
                if time.monotonic() > until:
                    raise
                problem = str(error)
            except ApiError as error:
                if error.kind == ProblemType.FENCED:
                    self._lose(error.problem.detail)
                    raise LeaseLost(self.why) from error
                if error.status < 500:
                    raise
                problem = str(error)
            logger.warning("%s waits: %s", what, problem)
            self.lost.wait(pause)
            pause = min(LONGEST_PAUSE_S, pause * 2)

    def _renew(self) -> None:
        """At a third of the lease; more often while the registry doesn't answer."""
        pause = self.lease.lease_s / 3
        while not self._over.wait(min(pause, max(0.0, self._until - time.monotonic()))):
            asked = time.monotonic()
            try:
                task = self._client(self._renewal())
            except Unreachable as error:
                logger.warning("lease of %s not renewed: %s", self.lease.task, error)
                pause = min(1.0, self.lease.lease_s / 10)
            except ApiError as error:
                if error.status < 500:
                    self._lose(error.problem.detail)
                    return
                pause = min(1.0, self.lease.lease_s / 10)
            else:
                if task.phase is not TaskPhase.LEASED:
                    self._lose(f"the task is {task.phase}: {task.reason}")
                    return
                self._until = asked + self.lease.lease_s
                pause = self.lease.lease_s / 3
            if time.monotonic() >= self._until:
                self._lose(f"the registry did not answer for {self.lease.lease_s:g} s")
                return

    def _renewal(self) -> Call[Task]:
        """Never longer under way than a part of the lease: a black hole must not pass for a held lease."""
        call = tasks.renew(self.lease.task, Fenced(fence=self.fence))
        return replace(call, timeout_s=self.lease.lease_s / 6, repeatable=False)

    def _lose(self, why: str) -> None:
        if not self.lost.is_set():
            self.why = why
            logger.info("task %s is no longer ours: %s", self.lease.task, why)
            self.lost.set()
