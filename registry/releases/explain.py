"""Replays a release's verdict from its stored looks: the same pure rules over the same counters."""

from registry.contract.verdicts import Explanation, Look, Verdict
from registry.edge.unit import Unit
from registry.releases import repository, trial
from registry.releases.judge import Setting, see, unpack
from registry.statistics.decide import decide
from registry.tables.deployments import DeploymentRow


async def explain(unit: Unit, deployment: DeploymentRow, number: int) -> Explanation:
    """Raises NotFound. `replayed` None: nothing was judged (a first release, or no look yet)."""
    row = await repository.get(unit.session, deployment, number)
    looks = await repository.looks(unit.session, row.id)
    standing = trial.load(row)
    decided = Verdict.model_validate(looks[-1].verdict) if looks else None
    replayed = None
    if standing is not None and decided is not None:
        state = trial.at_the_start(standing)
        for look in looks:
            state = see(state, unpack(look.batch), look.step)
        setting = Setting.load(looks[-1].setting)
        found = decide(state.now, state.trial, setting.clock, setting.pace)
        replayed = decided.model_copy(
            update={
                "kind": found.kind,
                "sentence": found.sentence,
                "gates": found.gates,
                "canary_requests": found.canary_n,
                "stable_requests": found.stable_n,
                "pairs": found.pairs,
            }
        )
    return Explanation(
        deployment=deployment.ref,
        release=number,
        decided=decided,
        replayed=replayed,
        matches=replayed == decided,
        looks=tuple(Look(seq=each.seq, verdict=Verdict.model_validate(each.verdict)) for each in looks),
    )
