"""The filter language: what is meant, what is refused and where; and that nothing at all breaks it."""

from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from registry.lifecycle.filter_words import FilterError
from registry.lifecycle.filters import (
    MetricRef,
    MetricTerm,
    MomentTerm,
    NumberTerm,
    Op,
    TagTerm,
    Term,
    TextTerm,
    parse,
)
from registry.lifecycle.searching import MODELS, VERSIONS, Key, Order, parse_order

EVERYTHING = (
    "name~'senti' and tags.team='x' AND metrics.top1@valset>0.9 and stage=ready and framework in "
    "(onnx, pytorch) and deployment=prod/x and owner!=ann and number<=7 and created_at>=2026-01-31"
)


def test_every_kind_of_term() -> None:
    assert parse(EVERYTHING, VERSIONS) == (
        TextTerm("name", Op.HAS, ("senti",)),
        TagTerm("team", Op.EQ, ("x",)),
        MetricTerm(MetricRef("top1", "valset", None, "all"), Op.GT, 0.9),
        TextTerm("stage", Op.EQ, ("ready",)),
        TextTerm("framework", Op.EQ, ("onnx", "pytorch")),
        TextTerm("deployment", Op.EQ, ("prod/x",)),
        TextTerm("owner", Op.NE, ("ann",)),
        NumberTerm("number", Op.LE, 7),
        MomentTerm("created_at", Op.GE, datetime(2026, 1, 31, tzinfo=UTC)),
    )


@pytest.mark.parametrize("blank", ["", "  ", "\n"])
def test_a_blank_filter_asks_for_everything(blank: str) -> None:
    assert parse(blank, VERSIONS) == ()


def test_metrics_name_version_and_split() -> None:
    (term,) = parse("metrics.map.50@val-set.x@12/night<-1e-3", VERSIONS)
    assert term == MetricTerm(MetricRef("map.50", "val-set.x", 12, "night"), Op.LT, -0.001)


@pytest.mark.parametrize(
    ("text", "position", "expected", "found"),
    [
        ("nam='x'", 1, "a field (name, owner", "'nam'"),
        ("name", 5, "one of = != ~ in", "ends there"),
        ("name='x' or owner=y", 10, "'and' or the end", "'or'"),
        ("name='x' and", 13, "a field", "ends there"),
        ("name='x", 6, "the closing quote", '"\'x"'),
        ("stage=rady", 7, "one of draft, verifying, ready", "'rady'"),
        ("stage~rea", 6, "one of = != in", "'~'"),
        ("number=seven", 8, "a whole number", "'seven'"),
        ("number=9999999999", 8, "a whole number", "'9999999999'"),
        ("metrics.top1@valset>high", 21, "a number", "'high'"),
        ("metrics.top1@valset>nan", 21, "a number", "'nan'"),
        ("metrics.top1@valset~1", 20, "one of = != < <= > >=", "'~'"),
        ("metrics.top1>1", 1, "a metric written as", "'metrics.top1'"),
        ("metrics.top1@VALSET>1", 1, "a metric written as", "'metrics.top1@VALSET'"),
        ("created_at>yesterday", 12, "a time such as", "'yesterday'"),
        ("created_at>0001-01-01T00:00:00+14:00", 12, "a time such as", "'0001"),
        ("tags.=x", 6, "the tag's key", "'='"),
        ("framework in onnx", 14, "'('", "'onnx'"),
        ("framework in (onnx", 19, "')'", "ends there"),
        ("name=#", 6, "a field, an operator or a value", "'#'"),
        ("name='a\0b'", 6, "without NUL", "b"),
        (" and ".join(["number=1"] * 21), 261, "at most 20 comparisons", "number"),
    ],
)
def test_a_wrong_filter_is_told_where_and_what(text: str, position: int, expected: str, found: str) -> None:
    with pytest.raises(FilterError) as refused:
        parse(text, VERSIONS)
    assert refused.value.position == position
    assert expected in refused.value.expected
    assert found in str(refused.value)
    assert str(refused.value).startswith(f"at character {position}: expected ")


def test_models_have_no_metrics_and_no_stage() -> None:
    for text in ("metrics.top1@valset>1", "stage=ready"):
        with pytest.raises(FilterError, match="expected a field \\(name, owner, task"):
            parse(text, MODELS)


@pytest.mark.parametrize(
    ("text", "order"),
    [
        ("name", Order(Key.NAME, descending=False)),
        ("created_at DESC", Order(Key.CREATED, descending=True)),
        ("metrics.top1@valset asc", Order(MetricRef("top1", "valset", None, "all"), descending=False)),
    ],
)
def test_orders(text: str, order: Order) -> None:
    assert parse_order(text, metrics=True) == order


@pytest.mark.parametrize(
    ("text", "position"), [("nmae", 1), ("", 1), ("name up", 6), ("name asc x", 10), ("'name'", 1)]
)
def test_a_wrong_order_is_told_where(text: str, position: int) -> None:
    with pytest.raises(FilterError) as refused:
        parse_order(text, metrics=True)
    assert refused.value.position == position


WORDS = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), min_size=1, max_size=20)


def _quoted(text: str, quote: str) -> str:
    return f"{quote}{text.replace(quote, quote * 2)}{quote}"


@st.composite
def _terms(draw: st.DrawFn) -> tuple[str, Term]:
    """A comparison as written, and as meant."""
    space = draw(st.sampled_from(["", " ", "\t "]))
    quote = draw(st.sampled_from("'\""))
    value = draw(WORDS)
    match draw(st.integers(0, 3)):
        case 0:
            op = draw(st.sampled_from([Op.EQ, Op.NE, Op.HAS]))
            return f"name{space}{op}{space}{_quoted(value, quote)}", TextTerm("name", op, (value,))
        case 1:
            key = draw(WORDS)
            written = f"tags.{_quoted(key, quote)}{space}={space}{_quoted(value, quote)}"
            return written, TagTerm(key, Op.EQ, (value,))
        case 2:
            number = draw(st.floats(-1e9, 1e9))
            metric = MetricRef("top1", "valset", 3, "all")
            return f"metrics.top1@valset@3{space}<={space}{number!r}", MetricTerm(metric, Op.LE, number)
        case _:
            values = draw(st.lists(WORDS, min_size=1, max_size=5))
            listed = ", ".join(_quoted(value, quote) for value in values)
            return f"owner in{space}({listed})", TextTerm("owner", Op.EQ, tuple(values))


@given(st.lists(_terms(), min_size=1, max_size=20))
def test_what_is_written_is_what_is_meant(terms: list[tuple[str, Term]]) -> None:
    text = " and ".join(written for written, _ in terms)
    assert parse(text, VERSIONS) == tuple(meant for _, meant in terms)


@given(st.text(max_size=200) | st.text(alphabet="nametgs.@/='\"~<>!(), and0123\n", max_size=60))
def test_any_text_is_a_filter_or_told_what_is_wrong(text: str) -> None:
    for searchable in (VERSIONS, MODELS):
        try:
            parse(text, searchable)
        except FilterError as refused:
            assert 1 <= refused.position <= len(text) + 1
            assert refused.expected
    try:
        parse_order(text, metrics=True)
    except FilterError as refused:
        assert 1 <= refused.position <= len(text) + 1
