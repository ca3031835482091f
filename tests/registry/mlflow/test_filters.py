"""MLflow's filter and order strings."""

import pytest

from registry.errors import Invalid
from registry.mlflow.filters import (
    MODEL_ATTRIBUTES,
    VERSION_ATTRIBUTES,
    VERSION_ORDERS,
    Condition,
    Order,
    read_filter,
    read_orders,
)


def test_conditions_joined_by_and() -> None:
    found = read_filter(
        "name LIKE 'iris%' AND tags.team = \"ml\" and tag.`mlflow.prompt.is_prompt` != 'true' "
        "AND version_number >= 3 AND run_id IN ('a', 'b') AND attributes.source_path ILIKE '%x%'",
        VERSION_ATTRIBUTES,
    )
    assert found == (
        Condition("attribute", "name", "LIKE", "iris%"),
        Condition("tag", "team", "=", "ml"),
        Condition("tag", "mlflow.prompt.is_prompt", "!=", "true"),
        Condition("attribute", "version_number", ">=", 3),
        Condition("attribute", "run_id", "IN", ("a", "b")),
        Condition("attribute", "source_path", "ILIKE", "%x%"),
    )


def test_no_filter_asks_for_all() -> None:
    assert read_filter(None, MODEL_ATTRIBUTES) == read_filter("  ", MODEL_ATTRIBUTES) == ()


def test_a_value_may_hold_words_of_the_language() -> None:
    (found,) = read_filter("tags.note = 'this AND that = (1)'", MODEL_ATTRIBUTES)
    assert found.value == "this AND that = (1)"


@pytest.mark.parametrize(
    ("given", "why"),
    [
        ("name", "a condition is key, comparator and value"),
        ("name = iris", "compared with a quoted text"),
        ("name = 'a' OR name = 'b'", "stands where AND is expected"),
        ("run_id = 'a'", "is no key; known are name"),
        ("name > 'a'", "can't be compared by >"),
        ("name IN 'a'", "IN wants a list"),
        ("name IN ('a' 'b')", "IN wants a list"),
        ("name IN ('a',", "IN wants a list"),
        ("tags. = 'a'", "is not understood"),
        ("name = 'a' AND", "a condition is key"),
        ("'a' = name", "is no key"),
        ("name = 'unclosed", "is not understood"),
        ("name = 'a'; DROP TABLE models", "is not understood"),
        ("name = '" + "x" * 5000 + "'", "4096 are allowed"),
    ],
)
def test_what_is_not_understood_is_named(given: str, why: str) -> None:
    with pytest.raises(Invalid, match=why):
        read_filter(given, MODEL_ATTRIBUTES)


def test_a_number_is_compared_with_a_number() -> None:
    with pytest.raises(Invalid, match="compared with an integer"):
        read_filter("version_number = '3'", VERSION_ATTRIBUTES)


def test_orders_are_made_total() -> None:
    otherwise = (Order("name", ascending=True), Order("version_number", ascending=False))
    assert read_orders(["creation_timestamp DESC", "name"], VERSION_ORDERS, otherwise) == (
        Order("creation_timestamp", ascending=False),
        Order("name", ascending=True),
        Order("version_number", ascending=False),
    )


@pytest.mark.parametrize("given", [["size"], ["name sideways"], ["name", "name DESC"], [""]])
def test_orders_that_are_not_understood(given: list[str]) -> None:
    with pytest.raises(Invalid, match="order_by"):
        read_orders(given, VERSION_ORDERS, ())
