"""Paired control: a sample of the canary's live requests is answered by stable as well, off the request path.

What it may cost is bounded three times: by the route's `mirror` share, by EXTRA_LOAD (mirrored rows per row
that the deployment answers in this worker), and by running only when stable's lane has nothing else to do.
A mirrored request is in no count but `pairs.*` of the canary.
"""

import asyncio
import random
import time
from dataclasses import dataclass

from registry.contract.counters import ERROR_OUTCOMES, Outcome
from registry.contract.routes import BASIS_POINTS, ArmRole
from serving.gateway import oip
from serving.gateway.attempt import Answered, see
from serving.gateway.call import Call
from serving.gateway.faults import Fault, IllegalAnswer, PipelineFault, RunFault
from serving.gateway.pairs import count_pair
from serving.gateway.refusals import Refusal
from serving.gateway.table import Arm, Deployment
from serving.gateway.work import Work
from serving.pipeline.inputs import rows_of
from serving.runtimes.errors import InputError
from serving.runtimes.protocol import Array
from serving.telemetry.observables import Sight

EXTRA_LOAD = 0.05
BURST_ROWS = 32.0
WAIT_S = 5.0


@dataclass(slots=True)
class Budget:
    """Rows that may be mirrored: EXTRA_LOAD of the rows answered, saved up to BURST_ROWS."""

    rows: float = BURST_ROWS

    def earn(self, answered_rows: int) -> None:
        if self.rows < BURST_ROWS:
            self.rows = min(BURST_ROWS, self.rows + EXTRA_LOAD * answered_rows)

    def spend(self, rows: int) -> bool:
        if rows > self.rows:
            return False
        self.rows -= rows
        return True


class Mirror:
    """One for all deployments of a worker."""

    def __init__(self) -> None:
        self._budgets: dict[str, Budget] = {}
        self._tasks: set[asyncio.Task[None]] = set()

    def finished(self, call: Call, deployment: Deployment, arm: Arm, answered: Answered | None) -> None:
        """Told of every counted request. Costs a request of stable some additions, and no more."""
        budget = self._budgets.get(deployment.name)
        if budget is None:
            budget = self._budgets[deployment.name] = Budget()
        rows = answered.rows if answered is not None else 1
        budget.earn(rows)
        if arm.entry.role is not ArmRole.CANARY or call.explicit or not self._is_wanted(call, deployment):
            return
        stable = deployment.stable
        if stable is None or stable is arm or not stable.loaded or not budget.spend(rows):
            return
        arm.book.holds += 1
        task = asyncio.get_running_loop().create_task(
            self._pair(call, arm, stable, answered.sights if answered is not None else None)
        )
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    def forget(self, kept: set[str]) -> None:
        """Deployments that this node no longer serves."""
        for name in self._budgets.keys() - kept:
            del self._budgets[name]

    def _is_wanted(self, call: Call, deployment: Deployment) -> bool:
        if call.outcome is not Outcome.OK and call.outcome not in ERROR_OUTCOMES:
            return False
        share = deployment.entry.mirror
        return share >= BASIS_POINTS or random.randrange(BASIS_POINTS) < share  # noqa: S311

    async def _pair(self, call: Call, canary: Arm, stable: Arm, canary_saw: tuple[Sight, ...] | None) -> None:
        try:
            inputs, rows = await _read(call, stable)
            stable_saw: tuple[Sight, ...] | None
            try:
                stable_saw = await _ask(stable, inputs, rows)
            except (RunFault, IllegalAnswer, PipelineFault):
                stable_saw = None
            count_pair(canary.book.file, canary_saw, stable_saw, rows)
        except (Fault, InputError, Refusal):
            # Not answered in time, or nothing that stable's contract takes: no pair, and no one's failure.
            return
        finally:
            canary.book.holds -= 1


async def _ask(stable: Arm, inputs: dict[str, Array], rows: int) -> tuple[Sight, ...]:
    work = Work(inputs, rows, stable.slot.plan.key(inputs), time.monotonic() + WAIT_S, pinned=False)
    if not stable.slot.lane.put_low(work):
        raise Fault("enough of it waits already")
    ran = await work.answer()
    return see(stable, ran)


async def _read(call: Call, stable: Arm) -> tuple[dict[str, Array], int]:
    plan = stable.slot.plan
    if call.raw:
        inputs = (await stable.slot.prepare(call.body, time.monotonic() + WAIT_S)).tensors
        return inputs, rows_of(inputs)
    request = plan.decode(call.body, call.head.headers.get(oip.HEADER_LENGTH))
    if request.rows > plan.max_rows:
        raise Fault("more rows than stable takes")
    return request.inputs, request.rows
