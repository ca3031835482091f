"""Fences and direct rollbacks."""

from datetime import UTC, datetime

import pytest

from registry.contract.admin import RollBackAsk
from registry.contract.nodes import Override
from registry.contract.routes import ArmRole
from serving.agent.admin import good_arm, override_of
from serving.agent.holdings import merge, override_with
from serving.agent.shares import requested
from serving.agent.snapshot import Holding
from tests.serving.agent.making import REGISTRY, arm, arm_id, assignment, fence, fragment

STABLE = arm(1, ArmRole.STABLE, 10_000)
TRIAL = (arm(1, ArmRole.STABLE, 7_500), arm(2, ArmRole.CANARY, 2_500))


def override(to: int = 1, base: int = 2) -> Override:
    return Override(
        id="ovr_1",
        deployment="prod/m",
        base=fence(base),
        to=arm_id(to),
        at=datetime(2026, 1, 1, tzinfo=UTC),
        by="ana",
    )


@pytest.mark.parametrize(
    ("generation", "timeline", "registry", "followed"),
    [
        (6, 1, REGISTRY, True),
        (5, 1, REGISTRY, True),
        (4, 1, REGISTRY, False),
        (1, 2, REGISTRY, True),
        (9, 1, "reg_other", False),
    ],
)
def test_only_a_fence_that_is_not_lower_is_followed(
    generation: int, timeline: int, registry: str, followed: bool
) -> None:
    held = {"prod/m": Holding(fragment(5, [STABLE]))}
    fresh = fragment(generation, TRIAL, timeline=timeline, registry=registry)
    merged = merge(held, assignment(fresh), REGISTRY)
    assert (merged.holdings["prod/m"].target == fresh) is followed
    assert bool(merged.notes) is not followed


def test_another_registry_is_refused_as_a_whole() -> None:
    merged = merge({}, assignment(fragment(1, [STABLE], registry="reg_2"), registry="reg_2"), REGISTRY)
    assert not merged.holdings
    assert "enrol it anew" in merged.notes[0]


def test_a_direct_rollback_moves_all_traffic_and_keeps_the_bad_arm_loaded() -> None:
    held = override_with(Holding(fragment(2, TRIAL)), override())
    assert isinstance(held, Holding)
    assert requested(held.target) == {arm_id(1): 10_000}
    assert {item.arm for item in held.target.arms} == {arm_id(1), arm_id(2)}
    assert held.target.fence == fence(2)


def test_under_a_direct_rollback_only_a_generation_that_settles_it_is_followed() -> None:
    held = override_with(Holding(fragment(2, TRIAL)), override())
    assert isinstance(held, Holding)
    before = {"prod/m": held}
    ignored = merge(before, assignment(fragment(3, TRIAL)), REGISTRY)
    assert ignored.holdings["prod/m"] == held
    assert "does not settle" in ignored.notes[0]
    settled = merge(before, assignment(fragment(4, [STABLE], resolves=["ovr_1"])), REGISTRY)
    assert settled.holdings["prod/m"].target.fence.generation == 4
    assert settled.holdings["prod/m"].override is None


def test_the_same_generation_told_again_does_not_undo_a_direct_rollback() -> None:
    held = override_with(Holding(fragment(2, TRIAL)), override())
    assert isinstance(held, Holding)
    merged = merge({"prod/m": held}, assignment(fragment(2, TRIAL)), REGISTRY)
    assert requested(merged.holdings["prod/m"].target) == {arm_id(1): 10_000}
    assert merged.holdings["prod/m"].override == held.override


def test_a_direct_rollback_on_another_base_is_refused() -> None:
    refused = override_with(Holding(fragment(5, TRIAL)), override(base=2))
    assert isinstance(refused, str) and "generation 5" in refused


def test_a_direct_rollback_to_an_unknown_arm_names_the_known_ones() -> None:
    refused = override_of(RollBackAsk(deployment="prod/m", by="ana", to="m@9"), Holding(fragment(2, TRIAL)))
    assert isinstance(refused, str) and "m@1@fp32" in refused and "m@2@fp32" in refused


def test_where_a_direct_rollback_goes_without_a_target() -> None:
    assert good_arm(Holding(fragment(2, TRIAL))) == arm_id(1)
    completed = [arm(2, ArmRole.STABLE, 10_000), arm(1, ArmRole.STANDBY)]
    assert good_arm(Holding(fragment(3, completed))) == arm_id(1)
    assert good_arm(Holding(fragment(4, [STABLE]))) is None
