"""The queue of a node against what is known of such queues, and what follows of it."""

import math

import pytest

from registry.capacity.queueing import NodeModel, Point, at_rate, most_within


def node(*points: tuple[int, float], gateway_s: float = 0.0, spread: float = 1.0) -> NodeModel:
    return NodeModel(tuple(Point(rows, took, took * spread) for rows, took in points), gateway_s)


def test_a_lone_request_takes_its_own_time() -> None:
    found = at_rate(node((1, 0.010), gateway_s=0.002), 0.5)
    assert found.p99_s == pytest.approx(0.012, rel=0.01)
    assert found.batch_rows == 1
    assert found.engine_s == pytest.approx(0.010)


def test_without_batches_it_is_the_queue_with_constant_service() -> None:
    """M/D/1 at ρ = .7, in units of D: P(wait > x) ≈ .3 / (.7·e^θ − 1) · e^(−θx), .7·(e^θ − 1) = θ = .674."""
    wait = math.log(0.3 / (0.7 * math.exp(0.674) - 1) / 0.01) / 0.674
    found = at_rate(node((1, 0.010)), 70)
    assert found.p99_s == pytest.approx(0.010 * (1 + wait), rel=0.10)
    assert found.batch_rows == 1


def test_batches_carry_what_single_rows_can_not() -> None:
    """A run of 8 takes as long as one of 1: 400 a second are 4 times what single rows allow."""
    found = at_rate(node((1, 0.010), (8, 0.010)), 400)
    assert 3.5 < found.batch_rows < 6
    assert found.p99_s < 0.021


def test_runs_that_vary_cost_more_at_the_tail() -> None:
    assert at_rate(node((1, 0.010), spread=3.0), 60).p99_s > 1.3 * at_rate(node((1, 0.010)), 60).p99_s


def test_the_gateway_is_a_server_of_its_own() -> None:
    assert node((1, 0.001), (32, 0.002), gateway_s=0.001).ceiling == pytest.approx(1000)
    crowded = at_rate(node((1, 0.001), (32, 0.002), gateway_s=0.001), 950)
    assert crowded.p99_s > 0.006


def test_the_most_within_a_limit_is_just_within_it() -> None:
    kind = node((1, 0.004), (4, 0.007), (16, 0.016), gateway_s=0.0002, spread=1.3)
    found = most_within(kind, 0.030)
    assert found is not None
    assert found.p99_s <= 0.030 < at_rate(kind, found.rate * 1.05).p99_s
    assert found.rate < kind.ceiling
    assert math.isclose(found.rate, most_within(kind, 0.030).rate)  # type: ignore[union-attr]


def test_no_rate_is_within_less_than_a_lone_request_takes() -> None:
    assert most_within(node((1, 0.010)), 0.009) is None


def test_points_must_ascend() -> None:
    with pytest.raises(ValueError, match="ascend in rows"):
        node((4, 0.01), (1, 0.01))
