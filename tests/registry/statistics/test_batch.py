"""What a batch must be, and its stored form."""

from __future__ import annotations

import dataclasses
import json
from typing import Any

import numpy as np
import pytest

from registry.statistics import simulate
from registry.statistics.batch import (
    ArmCounts,
    Batch,
    Layout,
    Mix,
    MixKind,
    empty_arm,
    empty_pairs,
    empty_split,
    stable_only,
)
from registry.statistics.simulate import Traffic

LAYOUT = Layout(
    error_kinds=("timeout", "engine_error"),
    size_buckets=("1", "2"),
    tails=("score low",),
    mixes=(Mix("score", MixKind.BINS, ("a", "b")), Mix("label", MixKind.CLASS, ("x", "y", "z"))),
)


def made(canary: ArmCounts) -> Batch:
    return Batch(LAYOUT, 2.0, canary, empty_arm(LAYOUT, 1, 3), empty_pairs(LAYOUT, 1, 3), empty_split(1, 3))


def test_empty_parts_fit_together() -> None:
    batch = made(empty_arm(LAYOUT, 1, 3))
    assert batch.replicates == 1
    assert batch.canary.errors.shape == (1, 3, 2)
    assert batch.pairs.mixes[0].inflow.shape == (1, 3, 3)
    assert LAYOUT.class_places == (1,)


@pytest.mark.parametrize(
    ("field", "value", "message"),
    [
        ("errors", np.zeros((1, 3, 1)), r"canary\.errors has shape \(1, 3, 1\) where \(1, 3, 2\) is wanted"),
        ("n", np.zeros(3), "replicates, strata"),
        ("errors", np.ones((1, 3, 2)), "exceeds its total"),
        ("slow", np.full((1, 3, 2), -1.0), "deltas within one incarnation"),
        ("mixes", (), "0 mixes where the layout names 2"),
    ],
)
def test_counters_that_cannot_be_are_refused(field: str, value: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        made(dataclasses.replace(empty_arm(LAYOUT, 1, 3), **{field: value}))


def test_more_canary_units_than_units_are_refused() -> None:
    split = dataclasses.replace(empty_split(1, 3), canary=np.ones((1, 3)))
    arm = empty_arm(LAYOUT, 1, 3)
    with pytest.raises(ValueError, match=r"split\.canary"):
        Batch(LAYOUT, 2.0, arm, arm, empty_pairs(LAYOUT, 1, 3), split)


def test_the_stored_form_is_json_and_comes_back_equal() -> None:
    batch = simulate.batch(Traffic(burst=3.0), 2, np.random.default_rng(1))
    stored = json.dumps(batch.to_state())
    again = Batch.from_state(json.loads(stored))
    assert json.dumps(again.to_state()) == stored
    assert again.layout == batch.layout
    assert np.array_equal(again.canary.mixes[0], batch.canary.mixes[0])


def test_a_newer_stored_form_is_read_and_a_shorter_one_is_explained() -> None:
    stored = stable_only(LAYOUT, 2.0, empty_arm(LAYOUT)).to_state()
    assert Batch.from_state({**stored, "added_later": 1}).seconds == 2.0
    del stored["pairs"]
    with pytest.raises(ValueError, match="lacks pairs"):
        Batch.from_state(stored)
