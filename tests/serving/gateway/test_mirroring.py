"""Paired control: the canary's live requests are answered by stable as well, and counted as pairs."""

import asyncio
from collections.abc import Callable

from registry.contract.routes import ArmRole
from serving.gateway.mirroring import BURST_ROWS, EXTRA_LOAD, Budget
from serving.telemetry.counterfile import CounterSnapshot
from tests.serving import tiny_models
from tests.serving.gateway.conftest import Engines
from tests.serving.gateway.contracts import CLASSIFIER, FAILING, ArmSpec, EntrySpec, edges, window
from tests.serving.gateway.rig import Rig

LETTERS = ("a", "b", "c", "d")


async def until(rig: Rig, wanted: Callable[[CounterSnapshot], bool]) -> CounterSnapshot:
    async with asyncio.timeout(60):
        while not wanted(found := rig.counters("c")):
            await asyncio.sleep(0.02)
    return found


async def test_equal_arms_never_flip(rig: Rig, classifier: str) -> None:
    arms = (
        ArmSpec("s", classifier, CLASSIFIER, share=0),
        ArmSpec("c", classifier, CLASSIFIER, ArmRole.CANARY, 10_000, version="m@2@fp32"),
    )
    await rig.take(EntrySpec(arms, mirror=10_000, edges=edges(low=0.5)))
    for n in range(12):
        assert (await rig.classify(n % 3)).status_code == 200
    fields = (await until(rig, lambda one: one.fields["pairs.n"][0] == 12)).fields
    assert fields["pairs.compared"][0] == 12
    assert fields["pairs.flips"][0] == 0
    assert rig.outcomes("s") == {}
    assert rig.counters("s").fields["observable.label"].sum() == 0


async def test_a_shifted_window_flips_and_the_flow_is_counted(rig: Rig, window_engine: str) -> None:
    arms = (
        ArmSpec("s", window_engine, window(), share=0),
        ArmSpec("c", window_engine, window(offset=1), ArmRole.CANARY, 10_000, version="m@2@fp32"),
    )
    await rig.take(EntrySpec(arms, mirror=10_000, edges=edges(LETTERS, low=0.9)))
    for n in range(20):
        content = bytes((n * 37 + k * k) % 90 + 33 for k in range(40))
        assert (await rig.http.post("/v2/models/m/predict", content=content)).status_code == 200
    fields = (await until(rig, lambda one: one.fields["pairs.n"][0] == 20)).fields
    flips = int(fields["pairs.flips"][0])
    assert flips > 0
    assert fields["pairs.label.in"].sum() == fields["pairs.label.out"].sum() == flips
    assert fields["pairs.score.canary_low"][0] + fields["pairs.score.stable_low"][0] > 0


async def test_a_canary_that_fails_where_stable_does_not(rig: Rig, failing: str, engines: Engines) -> None:
    large = engines.start(tiny_models.failing_on_value(engines.folder / "wide.onnx", rows=100)).socket
    arms = (
        ArmSpec("s", large, FAILING, share=0),
        ArmSpec("c", failing, FAILING, ArmRole.CANARY, 10_000, version="m@2@fp32"),
    )
    await rig.take(EntrySpec(arms, mirror=10_000))
    for value in (1, 50, 2, 60, 500):
        await rig.infer({"index": ("INT64", [[value]])})
    fields = (await until(rig, lambda one: one.fields["pairs.n"][0] == 5)).fields
    assert fields["pairs.canary_failed"][0] == 2
    assert fields["pairs.stable_failed"][0] == 0
    assert fields["pairs.compared"][0] == 2


async def test_nothing_is_mirrored_without_a_share_for_it(rig: Rig, classifier: str) -> None:
    arms = (
        ArmSpec("s", classifier, CLASSIFIER, share=0),
        ArmSpec("c", classifier, CLASSIFIER, ArmRole.CANARY, 10_000, version="m@2@fp32"),
    )
    await rig.take(EntrySpec(arms, mirror=0, edges=edges()))
    for _ in range(5):
        await rig.classify(0)
    await rig.take(EntrySpec(arms, generation=2, mirror=10_000, edges=edges()))
    await rig.classify(0)
    async with asyncio.timeout(60):
        while rig.counters("c", 2).fields["pairs.n"][0] != 1:
            await asyncio.sleep(0.02)
    assert rig.counters("c", 1).fields["pairs.n"][0] == 0


def test_the_budget_bounds_the_extra_load() -> None:
    budget = Budget()
    mirrored = sum(budget.spend(1) for _ in range(1000))
    assert mirrored == int(BURST_ROWS)
    for _ in range(1000):
        budget.earn(1)
        mirrored += budget.spend(1)
    assert mirrored <= BURST_ROWS + EXTRA_LOAD * 1000
