"""The controller judges a running release by what nodes count, and moves it by itself."""

import asyncio
from collections.abc import Mapping

import numpy as np

from registry.client import deployments, releases
from registry.contract.counters import CounterEdges, CounterReport, SparseCells, field_sizes, latency_bin
from registry.contract.deployments import PlanStep
from registry.contract.releases import Hold, ReleasePhase
from registry.contract.routes import Route
from registry.contract.verdicts import VerdictKind
from tests.registry.conftest import Registry
from tests.registry.releases.fleet import Node, fleet
from tests.registry.releases.stage import POLICY, REF, in_phase, promote, released, stage, until

QUICK = (PlanStep(share=5_000, dwell_s=0), PlanStep(share=10_000, dwell_s=0))
RATE = 400


class Traffic:
    """Counts requests on a node as its gateway does: cumulative cells per arm and generation."""

    def __init__(self, seed: int, mix: Mapping[str, tuple[float, ...]], fails: Mapping[str, float]) -> None:
        self._random = np.random.default_rng(seed)
        self._mix = mix
        self._fails = fails
        self._cells: dict[tuple[int, str], dict[str, np.ndarray]] = {}
        self._seq = 0

    def reports(self, route: Route) -> tuple[CounterReport, ...]:
        """One more batch of requests on every arm that has a share."""
        self._seq += 1
        for arm in route.arms:
            if arm.share:
                self._count(route, arm.arm, arm.version, RATE * arm.share // 10_000)
        return tuple(
            CounterReport(
                worker=0,
                deployment=route.deployment,
                generation=generation,
                arm=arm,
                seq=self._seq,
                fields={
                    name: SparseCells(
                        at=tuple(int(i) for i in np.flatnonzero(cells)),
                        n=tuple(int(n) for n in cells[cells > 0]),
                    )
                    for name, cells in fields.items()
                    if cells.any()
                },
            )
            for (generation, arm), fields in self._cells.items()
        )

    def _count(self, route: Route, arm: str, version: str, n: int) -> None:
        fields = self._cells.setdefault((route.fence.generation, arm), _zeros(route.edges))
        failed = int(self._random.binomial(n, self._fails.get(version, 0.0)))
        fields["assigned"][0] += n
        fields["outcome.engine_error"][0] += failed
        fields["outcome.ok"][0] += n - failed
        fields["engine_us.1"][latency_bin(900)] += n - failed
        fields["total_us"][latency_bin(1500)] += n
        mix = self._mix.get(version, (0.5, 0.3, 0.2, 0.0))
        fields["observable.label"] += self._random.multinomial(n - failed, mix)
        scores = self._random.beta(8, 2, n - failed)
        fields["observable.score"] += np.histogram(scores, 64, (0, 1))[0]


def _zeros(edges: CounterEdges) -> dict[str, np.ndarray]:
    return {name: np.zeros(size, np.int64) for name, size in field_sizes(edges).items()}


async def drive(registry: Registry, nodes: list[Node], traffic: list[Traffic]) -> None:
    """Every node reports a batch a few times a second, until it is cancelled."""
    while True:
        route = (await registry.client(deployments.get(REF))).requested
        if route is not None:
            for node, source in zip(nodes, traffic, strict=True):
                await node.agent.report(counters=source.reports(route), **node._last)
        await asyncio.sleep(0.1)


async def test_a_sound_release_advances_by_itself_and_completes(registry: Registry) -> None:
    await stage(registry, POLICY.model_copy(update={"plan": QUICK, "auto_advance": True, "mirror": 0}))
    async with fleet(registry) as nodes:
        await released(registry, "animals@1")
        driver = asyncio.create_task(drive(registry, nodes, [Traffic(n, {}, {}) for n in (1, 2)]))
        await asyncio.sleep(1)
        release = await promote(registry, "animals@2")
        done = await in_phase(registry, release.number, ReleasePhase.COMPLETED)
        driver.cancel()
    steps = [change for change in done.history if change.cause == "last_step"]
    assert [change.by_command for change in steps] == [False]
    assert steps[0].reason.startswith("Advance:")
    explained = await registry.client(releases.explain(REF, release.number))
    assert explained.matches
    assert explained.decided is not None
    assert explained.decided.kind is VerdictKind.ADVANCE


async def test_a_failing_canary_is_rolled_back_with_a_receipt_and_an_explanation(registry: Registry) -> None:
    await stage(registry, POLICY.model_copy(update={"plan": QUICK, "mirror": 0}))
    async with fleet(registry) as nodes:
        await released(registry, "animals@1")
        sources = [Traffic(n, {}, {"animals@1@fp32": 0.001, "animals@2@fp32": 0.2}) for n in (1, 2)]
        driver = asyncio.create_task(drive(registry, nodes, sources))
        await asyncio.sleep(1)
        release = await promote(registry, "animals@2")
        ended = await until(registry, release.number, lambda found: found.phase.startswith("roll"))
        driver.cancel()
        assert ended.verdict is not None
        assert ended.verdict.kind is VerdictKind.ROLL_BACK
        receipts = (await registry.client(releases.receipts(REF))).items
        assert receipts[0].automatic
        assert receipts[0].asked_by == "controller"
        assert receipts[0].reason.startswith("Roll back:")
        deployment = await registry.client(deployments.get(REF))
        assert deployment.pinned
        explained = await registry.client(releases.explain(REF, release.number))
    assert explained.matches
    assert explained.replayed == ended.verdict


async def test_other_labels_roll_a_release_back(registry: Registry) -> None:
    await stage(registry, POLICY.model_copy(update={"plan": QUICK, "mirror": 0}))
    async with fleet(registry) as nodes:
        await released(registry, "animals@1")
        sources = [Traffic(n, {"animals@2@fp32": (0.3, 0.5, 0.2, 0.0)}, {}) for n in (1, 2)]
        driver = asyncio.create_task(drive(registry, nodes, sources))
        await asyncio.sleep(1)
        release = await promote(registry, "animals@2")
        ended = await until(registry, release.number, lambda found: found.phase.startswith("roll"))
        driver.cancel()
    assert ended.verdict is not None
    fired = [gate.family for gate in ended.verdict.gates if gate.outcome == "fired"]
    assert "classes" in fired


async def test_without_automatic_rollback_bad_evidence_freezes(registry: Registry) -> None:
    await stage(registry, POLICY.model_copy(update={"plan": QUICK, "mirror": 0, "auto_roll_back": False}))
    async with fleet(registry) as nodes:
        await released(registry, "animals@1")
        sources = [Traffic(n, {}, {"animals@2@fp32": 0.2}) for n in (1, 2)]
        driver = asyncio.create_task(drive(registry, nodes, sources))
        await asyncio.sleep(1)
        release = await promote(registry, "animals@2")
        frozen = await until(registry, release.number, lambda found: found.hold == Hold.FROZEN)
        driver.cancel()
    assert frozen.phase is ReleasePhase.RUNNING
    assert "automatic rollback is switched off" in frozen.reason


async def test_proven_steps_wait_for_the_command_where_the_policy_says_so(registry: Registry) -> None:
    await stage(registry, POLICY.model_copy(update={"plan": QUICK, "mirror": 0}))
    async with fleet(registry) as nodes:
        await released(registry, "animals@1")
        driver = asyncio.create_task(drive(registry, nodes, [Traffic(n, {}, {}) for n in (1, 2)]))
        await asyncio.sleep(1)
        release = await promote(registry, "animals@2")
        held = await until(registry, release.number, lambda found: found.hold == Hold.HELD)
        driver.cancel()
    assert held.share == 5_000
    assert held.verdict is not None
    assert held.verdict.kind is VerdictKind.ADVANCE
