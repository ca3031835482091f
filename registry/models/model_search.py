"""Searches of models as SQL."""

from collections.abc import Collection, Sequence
from typing import Any, assert_never

from sqlalchemy import ColumnElement, func, not_, or_, select, tuple_
from sqlalchemy.ext.asyncio import AsyncSession

from registry.lifecycle.filters import MetricTerm, MomentTerm, NumberTerm, Op, TagTerm, Term, TextTerm
from registry.lifecycle.searching import Key, Order
from registry.tables.deployments import DeploymentRow
from registry.tables.models import ModelRow

TEXTS: dict[str, Any] = {
    "name": ModelRow.name,
    "owner": ModelRow.owner,
    "task": ModelRow.task,
    "description": ModelRow.description,
    "created_by": ModelRow.created_by,
}


async def search(
    session: AsyncSession,
    terms: Sequence[Term],
    text: str | None,
    order: Order,
    after: tuple[Any, ...] | None,
    limit: int,
    only: Collection[str],
) -> Sequence[ModelRow]:
    """Models, one more than `limit`. `text` is looked for in name, task, description and owner."""
    keys: tuple[ColumnElement[Any], ...]
    match order.by:
        case Key.NAME:
            keys = (ModelRow.name.expression,)
        case Key.CREATED:
            keys = (ModelRow.created_at.expression, ModelRow.name.expression)
        case _:
            raise ValueError(f"models have no {order.by} to be ordered by")
    query = select(ModelRow).where(*(_condition(term) for term in terms))
    if only:
        query = query.where(ModelRow.name.in_(only))
    if text:
        fields = (ModelRow.name, ModelRow.task, ModelRow.description, ModelRow.owner)
        query = query.where(or_(*(func.strpos(func.lower(field), text.lower()) > 0 for field in fields)))
    if after is not None:
        here = tuple_(*keys)
        query = query.where(here < after if order.descending else here > after)
    query = query.order_by(*(key.desc() if order.descending else key.asc() for key in keys))
    return (await session.execute(query.limit(limit + 1))).scalars().all()


def _condition(term: Term) -> ColumnElement[bool]:
    match term:
        case TextTerm(field="deployment"):
            places = [value.partition("/")[::2] for value in term.values]
            served = select(DeploymentRow.model).where(
                tuple_(DeploymentRow.environment, DeploymentRow.name).in_(places)
            )
            return not_(ModelRow.name.in_(served)) if term.op is Op.NE else ModelRow.name.in_(served)
        case TextTerm():
            return text_is(TEXTS[term.field], term.op, term.values)
        case NumberTerm():
            return compare(ModelRow.newest, term.op, term.value)
        case MomentTerm():
            return compare(ModelRow.created_at, term.op, term.value)
        case TagTerm():
            return _tag(term)
        case MetricTerm():
            raise ValueError("models have no metrics")
        case _:
            assert_never(term)


def _tag(term: TagTerm) -> ColumnElement[bool]:
    """Models without the tag match nothing."""
    return text_is(ModelRow.tags[term.key].astext, term.op, term.values)


def compare(column: Any, op: Op, value: Any) -> ColumnElement[bool]:
    """NULL, so false, where there is nothing to compare."""
    made: ColumnElement[bool]
    match op:
        case Op.EQ:
            made = column == value
        case Op.NE:
            made = column != value
        case Op.LT:
            made = column < value
        case Op.LE:
            made = column <= value
        case Op.GT:
            made = column > value
        case Op.GE:
            made = column >= value
        case Op.HAS:
            made = func.strpos(func.lower(column), value.lower()) > 0
        case _:
            assert_never(op)
    return made


def text_is(column: Any, op: Op, values: Sequence[str]) -> ColumnElement[bool]:
    """EQ: one of `values`; other operators have one."""
    if op is Op.EQ and len(values) > 1:
        made: ColumnElement[bool] = column.in_(values)
        return made
    return compare(column, op, values[0])
