"""Figures of parity against hand-made numbers, and the traps that means and medians fall into."""

import math

import numpy as np
import pytest

from builder.judgement.comparison import Comparison, deviation
from registry.contract.engines import OutputParity
from tests.builder.made import Array


def compared(source: list[Array], engine: list[Array]) -> OutputParity:
    comparison = Comparison()
    for at, (left, right) in enumerate(zip(source, engine, strict=True)):
        comparison.add(f"row-{at}", {"out": left}, {"out": right})
    (figures,) = comparison.outputs()
    return figures


def test_equal_outputs_have_no_noise() -> None:
    rows = [np.array([[1.0, 2.0]], np.float32), np.array([[3.0, 5.0]], np.float32)]
    found = compared(rows, rows)
    assert (found.cosine, found.sqnr_db, found.max_abs, found.max_rel) == (1.0, None, 0.0, 0.0)
    assert found.finite
    assert not found.constant


def test_the_figures_are_those_of_their_definitions() -> None:
    source, engine = np.array([[3.0, 4.0]]), np.array([[3.0, 4.5]])
    found = compared([source], [engine])
    assert found.cosine == pytest.approx(27 / (5 * math.hypot(3, 4.5)))
    assert found.sqnr_db == pytest.approx(10 * math.log10(25 / 0.25))
    assert (found.max_abs, found.max_rel) == pytest.approx((0.5, 0.125))


@pytest.mark.parametrize("bad", [math.nan, math.inf])
def test_what_is_not_finite_is_seen(bad: float) -> None:
    found = compared([np.array([[1.0, 2.0]])], [np.array([[1.0, bad]])])
    assert not found.finite
    assert found.cosine == 0


def test_infinity_in_the_source_itself_is_no_fault_of_the_engine() -> None:
    rows = [np.array([[1.0, math.inf]])]
    assert compared(rows, rows).finite


def test_an_engine_that_always_says_the_same_is_constant() -> None:
    source = [np.array([[1.0, 0.0]]), np.array([[0.9, 0.1]])]
    assert compared(source, [np.array([[1.0, 0.0]])] * 2).constant


def test_a_source_that_always_says_the_same_makes_nothing_constant() -> None:
    rows = [np.array([[1.0, 0.0]])] * 2
    assert not compared(rows, rows).constant


def test_all_zero_scores_have_no_cosine_at_all() -> None:
    found = compared([np.array([[0.2, 0.8]])] * 2, [np.zeros((1, 2))] * 2)
    assert found.cosine == 0
    assert found.sqnr_db == pytest.approx(0)


def test_one_ruined_row_among_a_thousand_is_named_first() -> None:
    comparison = Comparison()
    for at in range(1000):
        row = np.array([[1.0, 0.0]])
        comparison.add(f"row-{at}", {"out": row}, {"out": row[:, ::-1] if at == 500 else row})
    assert comparison.worst() == ("row-500",)


def test_texts_are_equal_or_not() -> None:
    found = compared([np.array([["a", "b"]])], [np.array([["a", "x"]])])
    assert found.cosine < 1


def test_other_outputs_or_shapes_are_an_error() -> None:
    comparison = Comparison()
    with pytest.raises(ValueError, match="outputs"):
        comparison.add("row", {"a": np.zeros(1)}, {"b": np.zeros(1)})
    with pytest.raises(ValueError, match="shape"):
        comparison.add("row", {"a": np.zeros(1)}, {"a": np.zeros(2)})


def test_deviation_is_relative_to_the_largest_element() -> None:
    wanted = {"out": np.array([[100.0, 1.0]])}
    assert deviation(wanted, {"out": np.array([[100.0, 2.0]])}) == pytest.approx(0.01)
    assert deviation(wanted, wanted) == 0
    assert deviation(wanted, {"out": np.array([[100.0]])}) == math.inf
    assert deviation(wanted, {"out": np.array([[math.nan, 1.0]])}) == math.inf
