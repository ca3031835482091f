"""Fragments, group commit and waiters: the parts without a registry around them."""

import asyncio
from collections.abc import Sequence
from datetime import UTC, datetime

import pytest
from psycopg import errors
from sqlalchemy.exc import DataError, OperationalError

from registry.contract.nodes import EngineRef
from registry.contract.routes import Fence, Route, RouteCause, RoutingUnit
from registry.listen import Waiters, generation_of, key_of
from registry.nodes.assignments import report_every_s
from registry.nodes.fragments import ArmFacts, DeploymentFacts, NodeFacts, build, pick_engine
from registry.nodes.groupcommit import GroupCommit
from tests.registry.nodes.world import CONTRACT, EDGES, arm_name, digest


def engine(target: str) -> EngineRef:
    return EngineRef(
        digest=digest(target), size=1, target=target, precision="fp32", memory_bytes=1, batchable=True
    )


def arm(*targets: str) -> ArmFacts:
    return ArmFacts(arm_name(1), "m@1@fp32", {target: engine(target) for target in targets}, CONTRACT)


def test_the_nodes_order_of_targets_decides() -> None:
    targets = ("tensorrt.sm_90", "ort.cuda", "ort.cpu")
    found, reason = pick_engine(arm("ort.cpu", "ort.cuda"), targets)
    assert found == engine("ort.cuda") and reason == ""
    nothing, why = pick_engine(arm("openvino.cpu"), targets)
    assert nothing is None and "openvino.cpu" in why


def test_an_empty_route_is_told_as_such() -> None:
    facts = DeploymentFacts(
        id="dep",
        ref="prod/files",
        environment="prod",
        model="m",
        selector={"zone": "a"},
        revision=1,
        drain_limit_s=3,
        route=Route(
            deployment="prod/files",
            fence=Fence(registry_id="reg", timeline=1, generation=4),
            cause=RouteCause.ABORT,
            actor="t",
            reason="",
            arms=(),
            keep=(),
            unit=RoutingUnit(),
            salt="s",
            edges=EDGES,
            resolves=("ovr_1",),
            created_at=datetime(2026, 1, 1, tzinfo=UTC),
        ),
        left_out=frozenset(),
    )
    fragment = build(facts, {}, ("ort.cpu",))
    assert (fragment.arms, fragment.fence.generation, fragment.resolves) == ((), 4, ("ovr_1",))
    node = NodeFacts("nod", "n", "prod", ("ort.cpu",), {"zone": "a", "rack": "7"}, False)
    assert facts.applies_to(node)
    assert not facts.applies_to(NodeFacts("nod", "n", "prod", ("ort.cpu",), {"zone": "b"}, False))
    assert not facts.applies_to(NodeFacts("nod", "n", "qa", ("ort.cpu",), {"zone": "a"}, False))


def test_a_large_fleet_reports_more_slowly() -> None:
    assert [report_every_s(nodes) for nodes in (0, 200, 201, 1000)] == [2, 2, 3, 10]


def test_payloads() -> None:
    assert (key_of("dep_1:7"), generation_of("dep_1:7")) == ("dep_1", 7)
    assert (key_of("dep_1"), generation_of("dep_1"), generation_of("dep_1:x")) == ("dep_1", 0, 0)


async def test_waiters_miss_nothing_between_reading_and_waiting() -> None:
    waiters = Waiters()
    with waiters.register("a") as waiter, waiters.register("b") as other:
        waiters.wake("a")
        assert await waiter.wait(5)
        assert not await waiter.wait(0.01)
        assert not await other.wait(0.01)
        waiters.wake_all()
        assert await other.wait(5)
        assert len(waiters) == 2
    assert len(waiters) == 0


def statement_error(kind: type[Exception], sqlstate: str) -> DataError | OperationalError:
    cause = kind("no")
    cause.sqlstate = sqlstate  # type: ignore[attr-defined]
    wrapper = DataError if sqlstate.startswith("22") else OperationalError
    return wrapper("INSERT", {}, cause)


class Writer:
    def __init__(self) -> None:
        self.batches: list[list[str]] = []

    async def __call__(self, batch: Sequence[str]) -> list[str]:
        self.batches.append(list(batch))
        if "poison" in batch:
            raise statement_error(errors.DataError, "22P05")
        if "down" in batch:
            raise statement_error(errors.OperationalError, "08006")
        return [item.upper() for item in batch]


async def test_what_comes_together_is_written_together() -> None:
    writer = Writer()
    group = GroupCommit[str, str](writer, lambda item: item, 0.01)
    assert await asyncio.gather(*(group.submit(item) for item in "abc")) == ["A", "B", "C"]
    assert writer.batches == [["a", "b", "c"]]


async def test_a_poisoned_item_fails_alone() -> None:
    group = GroupCommit[str, str](Writer(), lambda item: item, 0.01)
    found = await asyncio.gather(
        *(group.submit(item) for item in ("a", "poison", "b")), return_exceptions=True
    )
    assert (found[0], found[2]) == ("A", "B")
    assert isinstance(found[1], DataError)


async def test_a_database_that_is_away_is_not_asked_again_for_each_item() -> None:
    writer = Writer()
    group = GroupCommit[str, str](writer, lambda item: item, 0.01)
    found = await asyncio.gather(*(group.submit(item) for item in ("a", "down")), return_exceptions=True)
    assert all(isinstance(each, OperationalError) for each in found)
    assert len(writer.batches) == 1


async def test_items_of_one_key_are_written_in_order_and_apart() -> None:
    writer = Writer()
    group = GroupCommit[str, str](writer, lambda item: item[0], 0.01)
    await asyncio.gather(*(group.submit(item) for item in ("a1", "a2", "b1", "a3")))
    assert writer.batches == [["a1", "b1"], ["a2"], ["a3"]]


async def test_a_caller_that_gave_up_does_not_hold_the_others() -> None:
    group = GroupCommit[str, str](Writer(), lambda item: item, 0.05)
    gone = asyncio.create_task(group.submit("a"))
    stays = asyncio.create_task(group.submit("b"))
    await asyncio.sleep(0)
    gone.cancel()
    assert await stays == "B"
    with pytest.raises(asyncio.CancelledError):
        await gone
