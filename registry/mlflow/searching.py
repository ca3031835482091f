"""Conditions and orders as SQL, and pages by the key of their last row: stable while others write."""

import base64
import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

import orjson
from sqlalchemy import ColumnElement, Select, and_, false, not_, or_, true
from sqlalchemy.orm import InstrumentedAttribute

from registry.errors import Invalid
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


def page(
    query: Select[Any],
    orders: Sequence[Order],
    fields: Fields,
    token: str | None,
    limit: int,
    asked: Sequence[object],
) -> Select[Any]:
    """One more than `limit`, behind the row that the token names, with the columns of the order at the end
    (`order_0` …). `asked`: what a token is good for. Raises Invalid."""
    columns = [fields.orders[order.key] for order in orders]
    query = query.add_columns(*(column.label(f"order_{index}") for index, column in enumerate(columns)))
    if token is not None:
        query = query.where(_behind(columns, orders, _values(token, orders, asked)))
    by = (
        column.asc() if order.ascending else column.desc()
        for column, order in zip(columns, orders, strict=True)
    )
    return query.order_by(*by).limit(limit + 1)


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


def next_token(row: Any, orders: Sequence[Order], asked: Sequence[object]) -> str:
    """Names the last row of a page."""
    values = [getattr(row, f"order_{index}") for index in range(len(orders))]
    plain = [value.isoformat() if isinstance(value, datetime) else value for value in values]
    return base64.urlsafe_b64encode(orjson.dumps([_print(asked), *plain])).decode()


def _print(asked: Sequence[object]) -> str:
    return hashlib.sha256(repr(asked).encode()).hexdigest()[:12]


def _values(token: str, orders: Sequence[Order], asked: Sequence[object]) -> list[object]:
    try:
        found = orjson.loads(base64.urlsafe_b64decode(token.encode()))
    except ValueError:
        found = None
    if not isinstance(found, list) or len(found) != len(orders) + 1 or found[0] != _print(asked):
        raise Invalid(
            "page_token was not made by this search",
            "send next_page_token of the page before with the same filter and order, or none to begin",
        )
    try:
        return [_typed(order, value) for order, value in zip(orders, found[1:], strict=True)]
    except (TypeError, ValueError) as error:
        raise Invalid("page_token is damaged", "begin again without one") from error


def _typed(order: Order, value: object) -> object:
    if order.key.endswith("_timestamp"):
        return datetime.fromisoformat(str(value))
    return int(str(value)) if order.key == "version_number" else str(value)
