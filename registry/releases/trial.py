"""The trial of a release: what is compared with what, how strictly, and where its evidence stands."""

import dataclasses
from dataclasses import dataclass
from typing import Any

from sqlalchemy.ext.asyncio import AsyncSession

from registry.builds import service as builds
from registry.contract.counters import CounterEdges
from registry.contract.deployments import Arm, Policy, ReleaseTolerances
from registry.contract.routes import RoutingUnit
from registry.deployments import routing
from registry.deployments.arms import contract_of
from registry.drift import batches
from registry.drift import service as drift
from registry.drift.baseline import Baseline, baseline, layout, low_edge
from registry.drift.batches import Compared
from registry.statistics import evidence as evidence_rules
from registry.statistics.evidence import Evidence
from registry.statistics.tolerances import Margin, Tolerances
from registry.statistics.trial import Trial, Unit
from registry.tables.deployments import DeploymentRow
from registry.tables.releases import ReleaseRow

LOOK_BACK_S = 3600.0


@dataclass(frozen=True)
class Standing:
    """`begun`: the evidence before the first look; `now`: after `looks` of them, within `step`."""

    compared: Compared
    trial: Trial
    begun: Evidence
    now: Evidence
    looks: int
    step: int


def load(row: ReleaseRow) -> Standing | None:
    """None: nothing is judged (a first release has nothing to be compared with)."""
    if row.trial is None or row.evidence is None:
        return None
    return Standing(
        compared=Compared(
            canary=row.trial["canary"],
            stable=row.trial["stable"],
            edges=CounterEdges.model_validate(row.trial["edges"]),
            baseline=Baseline.from_state(row.trial["baseline"]),
        ),
        trial=Trial.from_state(row.trial["trial"]),
        begun=Evidence.from_state(row.trial["begun"]),
        now=Evidence.from_state(row.evidence["now"]),
        looks=row.evidence["looks"],
        step=row.evidence["step"],
    )


def at_the_start(standing: Standing) -> Standing:
    """Before the first look: where a replay begins."""
    return dataclasses.replace(standing, now=standing.begun, looks=0, step=0)


def moving(standing: Standing) -> dict[str, Any]:
    """What changes from look to look, as it is stored."""
    return {"now": standing.now.to_state(), "looks": standing.looks, "step": standing.step}


async def edges_for(session: AsyncSession, deployment: DeploymentRow, arm: Arm) -> CounterEdges:
    """The bins of a route whose stable arm is `arm`; a low score begins at its P10 of the last hour."""
    edges = routing.edges_of(await contract_of(session, arm))
    counts = await drift.counted(session, deployment, arm.id, edges, LOOK_BACK_S)
    return CounterEdges(
        observables=tuple(
            each.model_copy(update={"low": low_edge(each, counts.get(f"observable.{each.name}"))})
            for each in edges.observables
        )
    )


async def begin(
    session: AsyncSession, deployment: DeploymentRow, row: ReleaseRow, candidate: Arm, stable: Arm
) -> None:
    """Fixes the trial, cuts the baseline from stable's last hour, and teaches its rates to the evidence."""
    edges = await edges_for(session, deployment, stable)
    counts = await drift.counted(session, deployment, stable.id, edges, LOOK_BACK_S)
    compared = Compared(candidate.id, stable.id, edges, baseline(edges, counts))
    names = layout(edges, compared.baseline)
    policy = Policy.model_validate(row.policy)
    flips = await _flip_rate(session, candidate) + await _flip_rate(session, stable)
    trial = Trial(
        names,
        tolerances=_tolerances(policy.tolerances),
        unit=Unit(RoutingUnit.model_validate(deployment.unit).kind),
        mirrored=policy.mirror > 0,
        same_engine=(candidate.engines, candidate.pipeline) == (stable.engines, stable.pipeline),
        flip_rates=tuple(flips for _ in names.class_mixes),
    )
    known = evidence_rules.begin(trial)
    windows = await drift.history(session, deployment, stable.id, edges, LOOK_BACK_S)
    for batch in batches.of_stable(windows, compared):
        known = evidence_rules.look(known, batch, trial)
    row.trial = {
        "canary": compared.canary,
        "stable": compared.stable,
        "edges": edges.model_dump(mode="json"),
        "baseline": compared.baseline.to_state(),
        "trial": trial.to_state(),
        "begun": known.to_state(),
    }
    row.evidence = moving(Standing(compared, trial, known, known, 0, row.step))


def _tolerances(given: ReleaseTolerances) -> Tolerances:
    return Tolerances(
        errors=Margin(given.errors_ratio, given.errors_add),
        slow=Margin(given.slow_ratio, given.slow_add),
        tails=Margin(given.low_score_ratio, given.low_score_add),
        class_share=given.class_add,
        flips=given.flips_add,
        prove=Margin(given.prove_ratio, given.prove_add),
    )


async def _flip_rate(session: AsyncSession, arm: Arm) -> float:
    """Validation's upper bound of the flips that quantising this arm made; 0 where nothing was measured."""
    reports = await builds.reports_of(session, arm)
    return max((report.validation.flip_upper for report in reports if report.validation), default=0.0)
