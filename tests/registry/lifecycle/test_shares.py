"""A release completes from all traffic and from nowhere else."""

import pytest

from registry.contract.deployments import PlanStep
from registry.lifecycle.shares import exhausted, is_last


def plan(*shares: int) -> list[PlanStep]:
    return [PlanStep(share=share) for share in shares]


@pytest.mark.parametrize(
    ("shares", "step", "last"),
    [((500, 10_000), 0, False), ((500, 10_000), 1, True), ((500,), 0, False), ((10_000,), 0, True)],
)
def test_the_last_step_is_the_one_that_gives_everything(
    shares: tuple[int, ...], step: int, last: bool
) -> None:
    assert is_last(plan(*shares), step) is last


def test_a_plan_that_ends_below_everything_goes_no_further() -> None:
    assert exhausted(plan(500, 10_000), -1) is None
    assert exhausted(plan(500, 10_000), 0) is None
    assert exhausted(plan(500, 10_000), 1) is None
    assert "the plan ends at 5 %" in (exhausted(plan(500), 0) or "")
