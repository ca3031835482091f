"""The reading of drift: what people see of canary, stable and reference."""

import math

import pytest
from sqlalchemy import select

from registry.client import ApiError
from registry.client import deployments as calls
from registry.contract.counters import latency_bin, latency_edge
from registry.contract.engines import ScoreReference
from registry.contract.routes import ArmRole
from registry.contract.verdicts import Distance, DriftWindow
from registry.drift.rollup import pending, roll_up
from registry.tables.deployments import DeploymentRow
from tests.registry.conftest import Registry
from tests.registry.drift.conftest import REF, Counting
from tests.registry.nodes.world import World

pytestmark = pytest.mark.timeout(60)

REFERENCES = (
    ScoreReference(observable="label", kind="class", labels=("zip", "pdf", "exe"), counts=(30, 60, 10)),
    ScoreReference(observable="score", kind="score", edges=(0.25, 0.5, 0.75), counts=(10, 10, 20, 60)),
)
FAST, SLOW = latency_bin(2_000), latency_bin(90_000)


async def counted(world: World, counting: Counting) -> tuple[str, str]:
    stable, canary = await world.arm(1, references=REFERENCES), await world.arm(2)
    deployment = await world.deployment()
    await world.route(deployment, (stable, ArmRole.STABLE, 9000), (canary, ArmRole.CANARY, 1000))
    node = await counting.node("a")
    await counting.report(
        node,
        1,
        stable,
        1,
        {
            "assigned": {0: 1000},
            "outcome.ok": {0: 990},
            "outcome.timeout": {0: 4},
            "outcome.rejected": {0: 6},
            "total_us": {FAST: 980, SLOW: 20},
            "observable.label": {0: 600, 1: 300, 2: 100},
            "observable.score": {0: 100, 1: 100, 2: 200, 3: 600},
        },
    )
    await counting.report(
        node,
        1,
        canary,
        1,
        {
            "assigned": {0: 400},
            "outcome.ok": {0: 400},
            "total_us": {FAST: 400},
            "observable.label": {0: 100, 1: 300},
            "observable.score": {0: 200, 3: 200},
        },
    )
    # The registry's own loop may be first; either way everything is in the windows afterwards.
    while await unseen(world):
        async with world.database.session() as session, session.begin():
            await roll_up(session, REF)
    return stable, canary


async def unseen(world: World) -> bool:
    async with world.database.session() as session:
        return REF in await pending(session, judged=False)


def between(window: DriftWindow, observable: str, one: str, other: str) -> Distance:
    (found,) = [
        each for each in window.distances if each.observable == observable and each.between == (one, other)
    ]
    return found


async def test_side_by_side(registry: Registry, world: World, counting: Counting) -> None:
    stable, canary = await counted(world, counting)
    window = await registry.client(calls.drift(REF, 600))
    on_trial, serving, reference = window.arms
    assert [(each.arm, each.version, each.role) for each in window.arms] == [
        (canary, "filetype@2@fp32", "canary"),
        (stable, "filetype@1@fp32", "stable"),
        (None, "filetype@1@fp32", "reference"),
    ]
    assert (serving.assigned, serving.errors) == (1000, 4)
    assert serving.outcomes == {"ok": 990, "timeout": 4, "rejected": 6}
    assert serving.p50_ms == pytest.approx(latency_edge(FAST) / 1000)
    assert serving.p99_ms == pytest.approx(latency_edge(SLOW) / 1000)
    assert on_trial.p99_ms == pytest.approx(latency_edge(FAST) / 1000)
    label, score = serving.distributions
    assert (label.labels, label.counts, label.n) == (("pdf", "zip", "other"), (600, 300, 100), 1000)
    assert score.mean == pytest.approx(0.1 * 0.125 + 0.1 * 0.375 + 0.2 * 0.625 + 0.6 * 0.875)
    # The reference names other labels in another order: matched by name, the unknown is "other".
    assert reference.distributions[0].counts == (60, 30, 10)


async def test_distances_are_those_of_the_counts(
    registry: Registry, world: World, counting: Counting
) -> None:
    await counted(world, counting)
    window = await registry.client(calls.drift(REF, 600))
    found = between(window, "label", "canary", "stable")
    p = [(n + 0.5) / 401.5 for n in (100, 300, 0)]
    q = [(n + 0.5) / 1001.5 for n in (600, 300, 100)]
    assert found.psi == pytest.approx(sum((a - b) * math.log(a / b) for a, b in zip(p, q, strict=True)))
    assert found.n == 400
    assert found.alert
    same = between(window, "label", "stable", "reference")
    assert same.js == pytest.approx(0, abs=1e-6)
    assert same.n == 100
    assert same.alert is None, "a hundred are not enough to tell"
    with pytest.raises(ValueError, match="unpack"):
        between(window, "label", "canary", "reference")


async def test_a_canary_that_was_rolled_back_is_still_shown(
    registry: Registry, world: World, counting: Counting
) -> None:
    stable, canary = await counted(world, counting)
    async with world.database.session() as session:
        deployment = (await session.execute(select(DeploymentRow.id))).scalar_one()
    await world.route(deployment, (stable, ArmRole.STABLE, 10_000))
    window = await registry.client(calls.drift(REF, 600))
    assert [(each.arm, each.role) for each in window.arms[:2]] == [(canary, "canary"), (stable, "stable")]


async def test_an_empty_window_shows_zeros(registry: Registry, world: World) -> None:
    stable = await world.arm(1)
    await world.route(await world.deployment(), (stable, ArmRole.STABLE, 10_000))
    window = await registry.client(calls.drift(REF))
    (serving,) = window.arms
    assert (serving.assigned, serving.p50_ms, serving.distributions[0].n) == (0, None, 0)
    assert window.distances == ()


async def test_refuses_what_has_no_window(registry: Registry, world: World) -> None:
    with pytest.raises(ApiError) as nothing:
        await registry.client(calls.drift(REF))
    assert nothing.value.status == 404
    await world.arm(1)
    await world.deployment()
    with pytest.raises(ApiError) as never:
        await registry.client(calls.drift(REF))
    assert never.value.status == 404 and "never served" in never.value.problem.detail
    with pytest.raises(ApiError) as long:
        await registry.client(calls.drift(REF, 1e9))
    assert long.value.status == 422
