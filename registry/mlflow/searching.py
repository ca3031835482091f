"""Conditions and orders as SQL, and pages by the key of their last row: stable while others write."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from sqlalchemy import ColumnElement, Select, and_, false, not_, or_, true
from sqlalchemy.orm import InstrumentedAttribute

from registry.edge.pages import Cursor, Part
from registry.mlflow.filters import Condition, Order
from registry.mlflow.names import PROMPT_TAG

Column = ColumnElement[Any]


@dataclass(frozen=True)
class Fields:
    """`attributes` and `orders` by MLflow's names; `tags` is the column of tags."""

    attributes: Mapping[str, Column]
    orders: Mapping[str, Column]
    tags: InstrumentedAttribute[dict[str, Any]]


def conditions(found: Sequence[Condition], fields: Fields) -> list[ColumnElement[bool]]:
    return [_condition(each, fields) for each in found]


def _condition(condition: Condition, fields: Fields) -> ColumnElement[bool]:
    if condition.kind == "tag":
        return _tag(condition, fields.tags)
    return _compared(fields.attributes[condition.key], condition)


def _tag(condition: Condition, tags: InstrumentedAttribute[dict[str, Any]]) -> ColumnElement[bool]:
    if condition.comparator == "=" and condition.key != PROMPT_TAG:
        # Containment is what the index of tags answers.
        return tags.contains({condition.key: condition.value})
    found = _compared(tags[condition.key].astext, condition)
    if condition.key != PROMPT_TAG:
        return found
    # Clients ask so for models that are no prompts, and models don't carry the tag.
    meant = (condition.comparator, condition.value) in (("=", "false"), ("!=", "true"))
    return or_(found, not_(tags.has_key(PROMPT_TAG))) if meant else found


def _compared(column: Column, condition: Condition) -> ColumnElement[bool]:
    value = condition.value
    match condition.comparator:
        case "=":
            return column == value
        case "!=":
            return column != value
        case "<":
            return column < value
        case "<=":
            return column <= value
        case ">":
            return column > value
        case ">=":
            return column >= value
        case "LIKE":
            return column.like(value, escape="")
        case "ILIKE":
            return column.ilike(value, escape="")
        case "IN":
            return column.in_(_several(value))
        case "NOT IN":
            return column.not_in(_several(value))


def _several(value: str | int | tuple[str, ...]) -> tuple[str, ...]:
    assert isinstance(value, tuple), "the reader gives IN a list"
    return value


def cursor(named: str, found: Sequence[Condition], orders: Sequence[Order]) -> Cursor:
    """Of a search of the things `named` so."""
    return Cursor.of(named, found, orders, kinds=tuple(_kind(order) for order in orders))


def _kind(order: Order) -> type[Part]:
    if order.key.endswith("_timestamp"):
        return datetime
    return int if order.key == "version_number" else str


def page(
    query: Select[Any], orders: Sequence[Order], fields: Fields, after: Sequence[object] | None, limit: int
) -> Select[Any]:
    """One more than `limit`, behind the row with the key `after`, with the columns of the order at the end
    (`order_0` …)."""
    columns = [fields.orders[order.key] for order in orders]
    query = query.add_columns(*(column.label(f"order_{index}") for index, column in enumerate(columns)))
    if after is not None:
        query = query.where(_behind(columns, orders, after))
    by = (
        column.asc() if order.ascending else column.desc()
        for column, order in zip(columns, orders, strict=True)
    )
    return query.order_by(*by).limit(limit + 1)


def key(row: Any, orders: Sequence[Order]) -> list[Part]:
    """Of a row of a page, in its order."""
    return [getattr(row, f"order_{index}") for index in range(len(orders))]


def _behind(
    columns: Sequence[Column], orders: Sequence[Order], values: Sequence[object]
) -> ColumnElement[bool]:
    alternatives: list[ColumnElement[bool]] = []
    same: ColumnElement[bool] = true()
    for column, order, value in zip(columns, orders, values, strict=True):
        further = column > value if order.ascending else column < value
        alternatives.append(and_(same, further))
        same = and_(same, column == value)
    return or_(false(), *alternatives)
