"""Can this node answer? Asked by a real inference through the queue of every serving arm.

An arm that a stable arm stands behind never makes the node unready: its requests fall back. Results hold for
CACHE_S, so that a killed engine behind an open port turns the node red within two seconds.
"""

import asyncio
import math
import time
from dataclasses import dataclass

import numpy as np

from registry.contract.routes import ArmRole
from registry.contract.versions import Dtype
from serving.gateway.deadlines import DeadlineSweep
from serving.gateway.faults import Fault, IllegalAnswer, RunFault
from serving.gateway.gateway import Gateway
from serving.gateway.table import Arm, Deployment
from serving.gateway.work import Work
from serving.runtimes.dtypes import numpy_dtype
from serving.runtimes.errors import InputError
from serving.runtimes.protocol import Array

CACHE_S = 0.8
LEAST_S = 0.9
VARYING = 16
RUNS = 8
"""An engine gets the time of this many of its recent runs, where that is more than LEAST_S."""


@dataclass(frozen=True, slots=True)
class Readiness:
    """`reasons` say what is missing; `notes` what is wrong without making the node unready."""

    ready: bool
    reasons: tuple[str, ...]
    notes: tuple[str, ...] = ()
    retry_after_s: float = 1


class ReadinessProbe:
    def __init__(self, gateway: Gateway, sweep: DeadlineSweep) -> None:
        self._gateway = gateway
        self._sweep = sweep
        self._asking: dict[str, tuple[float, asyncio.Task[Readiness]]] = {}

    async def node(self) -> Readiness:
        """Every deployment of this node. A node that serves nothing is ready for nothing else."""
        routing = self._gateway.routing
        if routing.seq < 0:
            return Readiness(False, ("the agent has sent no table yet",))
        if self._gateway.draining:
            return Readiness(False, ("this node is draining: it answers what it has and leaves",))
        found = await asyncio.gather(
            *(self.deployment(one) for one in routing.deployments.values() if one.entry.arms)
        )
        return Readiness(
            ready=all(one.ready for one in found),
            reasons=tuple(reason for one in found for reason in one.reasons),
            notes=tuple(note for one in found for note in one.notes),
            retry_after_s=max((one.retry_after_s for one in found), default=1),
        )

    async def deployment(self, deployment: Deployment) -> Readiness:
        """Callers at one time share one answer, which is at most CACHE_S old."""
        now = time.monotonic()
        asked = self._asking.get(deployment.name)
        if asked is None or (asked[1].done() and now - asked[0] > CACHE_S):
            asked = (now, asyncio.get_running_loop().create_task(self._ask(deployment)))
            self._asking[deployment.name] = asked
        return await asyncio.shield(asked[1])

    async def _ask(self, deployment: Deployment) -> Readiness:
        name = deployment.entry.deployment
        wait = deployment.entry.estimate_s
        if not deployment.serving:
            return Readiness(False, (f"{name}: no arm is loaded yet",), retry_after_s=wait)
        reasons: list[str] = []
        notes: list[str] = []
        stables = [arm for arm in deployment.serving if arm.entry.role is ArmRole.STABLE]
        faults = await asyncio.gather(*(self._probe(arm) for arm in deployment.serving))
        for arm, fault in zip(deployment.serving, faults, strict=True):
            if fault is not None:
                heard = notes if stables and arm not in stables else reasons
                heard.append(f"{name} {arm.entry.version}: {fault}")
        return Readiness(not reasons, tuple(reasons), tuple(notes), wait)

    async def _probe(self, arm: Arm) -> str | None:
        """What is wrong with the arm, or None."""
        lane = arm.slot.lane
        if not lane.has_engine:
            return "its engine process is gone"
        if arm.slot.pool.trouble:
            return arm.slot.pool.trouble
        inputs = arm.slot.example or _made_up(arm)
        allowed = max(LEAST_S, RUNS * lane.run_s)
        rows = next((array.shape[0] for array in inputs.values() if array.ndim), 1)
        work = Work(inputs, rows, arm.slot.plan.key(inputs), time.monotonic() + allowed)
        lane.put(work, beyond_limits=True)
        self._sweep.watch(work)
        try:
            await work.answer()
        except (RunFault, IllegalAnswer, InputError) as error:
            # Made-up numbers may be nonsense to a model: that it says so proves that it lives.
            return str(error) if arm.slot.example is not None else None
        except Fault as fault:
            return str(fault) or "its route was changed meanwhile"
        finally:
            self._sweep.forget(work)
        return None


def _made_up(arm: Arm) -> dict[str, Array]:
    """One row of zeros per input, varying axes of VARYING."""
    inputs: dict[str, Array] = {}
    for spec in arm.slot.plan.signature.inputs:
        first, *others = spec.shape or (1,)
        shape = [1 if isinstance(first, str) else first]
        shape += [axis if isinstance(axis, int) else VARYING for axis in others]
        fill: object = "" if spec.dtype is Dtype.BYTES else 0
        inputs[spec.name] = np.full(shape if spec.shape else (), fill, dtype=numpy_dtype(spec.dtype))
    return inputs


def retry_after(readiness: Readiness) -> bytes:
    return b"%d" % max(1, math.ceil(readiness.retry_after_s))
