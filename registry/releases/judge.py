"""One look at a running release: take what nodes counted, judge it, keep the look, do what follows.

The look is one short transaction that locks no deployment; what follows from it is another one, with a
compare-and-set on phase and step, so that a rollback by hand never waits for arithmetic.
"""

import dataclasses
import zlib
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from typing import Any, assert_never

import orjson
from sqlalchemy import update
from sqlalchemy.orm.exc import StaleDataError

from registry import outbox
from registry.contract.deployments import PlanStep, Policy
from registry.contract.releases import Hold, ReleasePhase, RollBack
from registry.contract.verdicts import Verdict
from registry.drift import service as drift
from registry.drift.rollup import roll_up
from registry.edge.unit import Unit
from registry.lifecycle.verdicts import Consequence, consequence
from registry.releases import repository, steps, trial
from registry.releases.locking import locked
from registry.releases.rollback import roll_back
from registry.releases.trial import Standing
from registry.statistics import evidence as evidence_rules
from registry.statistics.batch import Batch
from registry.statistics.decide import StepClock, decide
from registry.statistics.gates import Pace
from registry.tables.releases import LookRow, ReleaseRow

Units = Callable[[], AbstractAsyncContextManager[Unit]]


@dataclass(frozen=True)
class Setting:
    """Where in its step a look was taken, and how much traffic there was."""

    clock: StepClock
    pace: Pace

    def stored(self) -> dict[str, float]:
        return {**dataclasses.asdict(self.clock), **dataclasses.asdict(self.pace)}

    @classmethod
    def load(cls, stored: dict[str, Any]) -> "Setting":
        return cls(
            StepClock(stored["elapsed_s"], stored["dwell_s"], stored["longest_hold_s"]),
            Pace(stored["canary_per_s"], stored["pairs_per_s"]),
        )


def pack(batch: Batch | None) -> bytes:
    """A batch as it is stored: mostly zeros, so deflated."""
    return b"" if batch is None else zlib.compress(orjson.dumps(batch.to_state()), 6)


def unpack(stored: bytes) -> Batch | None:
    return Batch.from_state(orjson.loads(zlib.decompress(stored))) if stored else None


def see(standing: Standing, batch: Batch | None, step: int) -> Standing:
    """The evidence after a batch. What was proven in an earlier step is forgotten, what was bad is not."""
    now = standing.now
    if step != standing.step:
        now = evidence_rules.begin_step(now, standing.trial)
    if batch is not None:
        now = evidence_rules.look(now, batch, standing.trial)
    return dataclasses.replace(standing, now=now, looks=standing.looks + 1, step=step)


async def judge(units: Units, release_id: str, fence: int) -> None:
    """Looks, and does what the verdict asks for."""
    async with units() as unit:
        verdict = await _look(unit, release_id, fence)
    if verdict is not None:
        await _follow(units, release_id, fence, verdict)


async def _look(unit: Unit, release_id: str, fence: int) -> Verdict | None:
    row = await unit.session.get(ReleaseRow, release_id)
    assert row is not None
    deltas = await roll_up(unit.session, row.deployment)
    standing = trial.load(row)
    if standing is None:
        return None
    batch = await drift.batch(unit.session, row.deployment_id, deltas, standing.compared)
    now = await repository.now(unit.session)
    step = PlanStep.model_validate(row.plan[row.step])
    elapsed = (now - row.step_since).total_seconds() if row.step_since else 0.0
    setting = Setting(StepClock(elapsed, step.dwell_s, step.hold_s), _pace(batch))
    seen = see(standing, batch, row.step)
    decision = decide(seen.now, seen.trial, setting.clock, setting.pace)
    verdict = Verdict(
        kind=decision.kind,
        sentence=decision.sentence,
        gates=decision.gates,
        canary_requests=decision.canary_n,
        stable_requests=decision.stable_n,
        pairs=decision.pairs,
        step=row.step,
        generation=row.generation or 0,
        at=now,
    )
    earlier = row.verdict["kind"] if row.verdict else None
    if batch is None and verdict.kind == earlier:
        return verdict
    kept = await unit.session.execute(
        update(ReleaseRow)
        .where(
            ReleaseRow.id == release_id,
            ReleaseRow.controller_fence == fence,
            ReleaseRow.phase == ReleasePhase.RUNNING,
            ReleaseRow.step == row.step,
        )
        .values(evidence=trial.moving(seen), verdict=verdict.model_dump(mode="json"))
        .returning(ReleaseRow.id)
        .execution_options(synchronize_session=False)
    )
    if kept.first() is None:
        # Undo the roll-up as well: what it took belongs to whoever judges next.
        raise StaleDataError(f"{row.subject} was moved or claimed by someone else during the look")
    unit.session.add(
        LookRow(
            release_id=release_id,
            seq=seen.looks,
            at=now,
            generation=verdict.generation,
            step=row.step,
            batch=pack(batch),
            setting=setting.stored(),
            verdict=verdict.model_dump(mode="json"),
        )
    )
    if verdict.kind != earlier:
        await outbox.judged(unit.session, row, verdict, actor=unit.actor)
    return verdict


def _pace(batch: Batch | None) -> Pace:
    if batch is None or batch.seconds <= 0:
        return Pace(0.0, 0.0)
    return Pace(float(batch.canary.n.sum()) / batch.seconds, float(batch.pairs.n.sum()) / batch.seconds)


async def _follow(units: Units, release_id: str, fence: int, verdict: Verdict) -> None:
    """The second transaction. Someone may have moved the release meanwhile: then nothing follows."""
    async with units() as unit:
        found = await unit.session.get(ReleaseRow, release_id)
        assert found is not None
        what = consequence(
            ReleasePhase(found.phase), found.hold, verdict.kind, Policy.model_validate(found.policy)
        )
        if what.action == "nothing" or (what.action == "hold" and found.hold):
            return
        deployment, row = await locked(unit, release_id)
        if row.controller_fence != fence or row.phase != ReleasePhase.RUNNING or row.step != verdict.step:
            return
        match what.action:
            case "step":
                ended = steps.plan_ended(row)
                if ended is None:
                    await steps.step_forward(unit, deployment, row, verdict.sentence, by_command=False)
                else:
                    await steps.hold(unit, row, Hold.PAUSED, ended, by_command=False)
            case "hold":
                await steps.hold(unit, row, Hold.HELD, what.why, by_command=False)
            case "pause":
                await steps.hold(unit, row, Hold.PAUSED, _told(what, verdict), by_command=False)
            case "freeze":
                await steps.hold(unit, row, Hold.FROZEN, _told(what, verdict), by_command=False)
            case "roll_back":
                environment, _, name = row.deployment.partition("/")
                asked = RollBack(reason=verdict.sentence[:1024])
                await roll_back(unit, environment, name, asked, automatic=True)
            case other:
                assert_never(other)


def _told(what: Consequence, verdict: Verdict) -> str:
    return f"{verdict.sentence} ({what.why})" if what.why else verdict.sentence
