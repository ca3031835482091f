"""Start guards of a release: each one passes, fails with a reason, or is skipped with a reason. Pure."""

from collections.abc import Iterator
from dataclasses import dataclass

from registry.contract.deployments import Policy
from registry.contract.releases import Guard
from registry.contract.versions import VersionStage


@dataclass(frozen=True)
class EngineFacts:
    """The newest engine of the candidate for one target, and what its gates say."""

    target: str
    releasable: bool
    unproven: bool
    reasons: tuple[str, ...]
    memory_bytes: int


@dataclass(frozen=True)
class NodeFacts:
    """`targets` best first; `memory_free_bytes` None: the node has not said."""

    name: str
    targets: tuple[str, ...]
    fresh: bool
    memory_free_bytes: int | None


@dataclass(frozen=True)
class MetricFacts:
    """The gate's metric of candidate and stable; None where nobody recorded it."""

    candidate: float | None
    stable: float | None
    higher_is_better: bool


@dataclass(frozen=True)
class CapacityFacts:
    """Whether the pool carries the policy's peak with the candidate, as a sentence too."""

    enough: bool
    says: str


@dataclass(frozen=True)
class StartFacts:
    version: str
    precision: str
    stage: VersionStage
    stage_reason: str
    engines: tuple[EngineFacts, ...]
    refused: tuple[EngineFacts, ...]
    nodes: tuple[NodeFacts, ...]
    policy: Policy
    same_as_stable: bool
    first: bool
    metric: MetricFacts | None
    servable: bool = True
    capacity: CapacityFacts | None = None


def _passed(name: str, reason: str) -> Guard:
    return Guard(name=name, outcome="passed", reason=reason)


def _failed(name: str, reason: str) -> Guard:
    return Guard(name=name, outcome="failed", reason=reason)


def _skipped(name: str, reason: str) -> Guard:
    return Guard(name=name, outcome="skipped", reason=reason)


def version_guard(facts: StartFacts) -> Guard:
    name = "version"
    if facts.stage is VersionStage.READY:
        return _passed(name, f"{facts.version} is sealed and ready")
    if facts.stage is VersionStage.QUARANTINED:
        return _failed(
            name, f"{facts.version} is quarantined: {facts.stage_reason}; it can never be released"
        )
    return _failed(name, f"{facts.version} is {facts.stage}, only a ready version can be released")


def change_guard(facts: StartFacts) -> Guard:
    name = "change"
    if facts.same_as_stable:
        return _failed(name, f"{facts.version}@{facts.precision} is what serves already")
    return _passed(name, "the candidate differs from stable")


def gates_guard(facts: StartFacts) -> Guard:
    """Failed gates refuse an engine word for word; an engine that was refused is never released."""
    name = "gates"
    if facts.engines:
        return _passed(
            name, "parity, validation and speed passed on " + ", ".join(e.target for e in facts.engines)
        )
    if not facts.servable:
        return _failed(name, f"{facts.version} has no serving contract: {facts.stage_reason}")
    if facts.refused:
        why = "; ".join(f"{e.target}: {', '.join(e.reasons)}" for e in facts.refused)
        return _failed(name, f"{facts.version}@{facts.precision} was refused by its gates: {why}")
    return _failed(
        name,
        f"{facts.version} has no engine of precision {facts.precision}; "
        f"build one: slipway build create {facts.version} --precision {facts.precision}",
    )


def proof_guard(facts: StartFacts) -> Guard:
    name = "proof"
    unproven = [engine.target for engine in facts.engines if engine.unproven]
    if not unproven:
        return _passed(name, "golden pairs passed")
    told = f"{facts.version} is unproven (no golden pairs: pre-processing was never compared with training)"
    if facts.policy.allow_unproven:
        return _passed(name, f"{told}; the deployment's policy allows that")
    return _failed(name, f"{told}; register it with golden pairs, or set allow_unproven in the policy")


def pool_guard(facts: StartFacts) -> Guard:
    """Every fresh node must find an engine in its list; enough of them must remain."""
    name = "pool"
    targets = {engine.target for engine in facts.engines}
    fresh = [node for node in facts.nodes if node.fresh]
    without = [node.name for node in fresh if targets.isdisjoint(node.targets)]
    able = len(fresh) - len(without)
    if able < facts.policy.min_ready:
        return _failed(
            name,
            f"{able} nodes can load it, the policy wants at least {facts.policy.min_ready}"
            + (f"; no engine for: {', '.join(without)}" if without else "")
            + "; start nodes (slipway node invite), or build for their targets",
        )
    if without:
        return _failed(
            name, f"no engine for the targets of {', '.join(without)}; build for them, or drain them"
        )
    return _passed(name, f"{able} nodes have an engine for it")


def memory_guard(facts: StartFacts) -> Guard:
    name = "memory"
    short: list[str] = []
    for node in facts.nodes:
        engine = next((e for target in node.targets for e in facts.engines if e.target == target), None)
        if engine is None or node.memory_free_bytes is None or not node.fresh:
            continue
        if engine.memory_bytes > node.memory_free_bytes:
            short.append(
                f"{node.name} has {node.memory_free_bytes >> 20} MiB, {engine.memory_bytes >> 20} are needed"
            )
    if short:
        return _failed(name, "not enough memory: " + "; ".join(short))
    return _passed(name, "it fits beside stable on every node")


def metrics_guard(facts: StartFacts) -> Guard:
    name = "metrics"
    gate = facts.policy.metrics_gate
    if gate is None:
        return _skipped(name, "the policy has no metrics gate")
    what = f"{gate.metric} on {gate.dataset.name}@{gate.dataset.version}"
    if facts.metric is None or facts.metric.candidate is None:
        return _failed(name, f"{facts.version} has no {what}; record it: slipway version metric")
    if facts.first:
        return _skipped(name, "there is no stable version to compare with")
    if facts.metric.stable is None:
        return _failed(name, f"stable has no {what}; record it: slipway version metric")
    loss = facts.metric.stable - facts.metric.candidate
    loss = loss if facts.metric.higher_is_better else -loss
    figures = f"{what}: {facts.metric.candidate:.4f} against stable's {facts.metric.stable:.4f}"
    if loss > gate.max_loss:
        return _failed(name, f"{figures}, worse by {loss:.4f}, allowed are {gate.max_loss:.4f}")
    return _passed(name, figures)


def capacity_guard(facts: CapacityFacts) -> Guard:
    """Never refuses: a bench is no load test, and a pool may be about to grow."""
    if facts.enough:
        return _passed("capacity", facts.says)
    return Guard(name="capacity", outcome="passed", reason=f"warning: {facts.says}", warning=True)


def start_guards(facts: StartFacts) -> tuple[Guard, ...]:
    """All of them, always: a person sees every reason at once."""

    def each() -> Iterator[Guard]:
        yield version_guard(facts)
        yield change_guard(facts)
        yield gates_guard(facts)
        yield proof_guard(facts)
        yield pool_guard(facts)
        yield memory_guard(facts)
        yield metrics_guard(facts)
        if facts.capacity is not None:
            yield capacity_guard(facts.capacity)

    return tuple(each())
