"""Use cases of searches: over all models, and over the versions of all of them."""

from collections.abc import Sequence
from datetime import datetime
from typing import Any

from sqlalchemy import Row

from registry.contract.pages import Page
from registry.contract.versions import Model, Version
from registry.edge.pages import Cursor, Part
from registry.edge.unit import Unit
from registry.errors import Invalid
from registry.lifecycle.filter_words import FilterError
from registry.lifecycle.filters import MetricRef, Searchable, Term, TextTerm, parse
from registry.lifecycle.searching import MODELS, VERSIONS, Key, Order, parse_order
from registry.models import model_search, version_search, views
from registry.models.represent import represent_model

NEWEST_FIRST = Order(Key.CREATED, descending=True)
BY_NAME = Order(Key.NAME, descending=False)


async def versions(
    unit: Unit, filter: str | None, order_by: str | None, page_token: str | None, limit: int
) -> Page[Version]:
    """Newest first, if nothing else is asked for; only those in the token's scope. Raises Invalid, and
    Forbidden for a deployment outside the scope."""
    terms = _terms(filter, VERSIONS)
    order = _order(order_by, NEWEST_FIRST, metrics=True)
    _require_environments(unit, terms)
    cursor = Cursor.of("versions", terms, order, kinds=_version_kinds(order))
    found = await version_search.search(
        unit.session, terms, order, cursor.after(page_token), limit, unit.principal.models
    )
    shown = found[:limit]
    items = await views.found(unit.session, shown)
    last = _version_key(order, shown[-1]) if shown else None
    return cursor.page(items, len(found) > limit, last)


async def models(
    unit: Unit,
    filter: str | None,
    text: str | None,
    order_by: str | None,
    page_token: str | None,
    limit: int,
) -> Page[Model]:
    """By name, if nothing else is asked for; only those in the token's scope. Raises Invalid."""
    terms = _terms(filter, MODELS)
    order = _order(order_by, BY_NAME, metrics=False)
    _require_environments(unit, terms)
    by_name = order.by is Key.NAME
    cursor = Cursor.of("models", terms, text, order, kinds=(str,) if by_name else (datetime, str))
    found = await model_search.search(
        unit.session, terms, text, order, cursor.after(page_token), limit, unit.principal.models
    )
    last: tuple[Part, ...] | None = None
    if found[:limit]:
        row = found[:limit][-1]
        last = (row.name,) if by_name else (row.created_at, row.name)
    return cursor.page([represent_model(row) for row in found[:limit]], len(found) > limit, last)


def _terms(filter: str | None, searchable: Searchable) -> Sequence[Term]:
    try:
        return parse(filter or "", searchable)
    except FilterError as error:
        raise Invalid(
            f"filter: {error}",
            "a filter is made of comparisons joined by and, for example name~'senti' and tags.team='nlp'; "
            f"the fields are {searchable.names}",
        ) from error


def _require_environments(unit: Unit, terms: Sequence[Term]) -> None:
    """Where a version serves is told only to those who may see it there."""
    for term in terms:
        if isinstance(term, TextTerm) and term.field == "deployment":
            for value in term.values:
                unit.principal.require_environment(value.partition("/")[0])


def _order(order_by: str | None, default: Order, *, metrics: bool) -> Order:
    if not order_by:
        return default
    try:
        return parse_order(order_by, metrics=metrics)
    except FilterError as error:
        raise Invalid(f"order_by: {error}", "write the key and asc or desc: created_at desc") from error


def _version_kinds(order: Order) -> tuple[type[Part], ...]:
    if isinstance(order.by, MetricRef):
        return (float, str)
    return (datetime, str) if order.by is Key.CREATED else (str, int)


def _version_key(order: Order, row: Row[Any]) -> tuple[Part, ...]:
    if isinstance(order.by, MetricRef):
        return (row.measured, row.id)
    return (row.created_at, row.id) if order.by is Key.CREATED else (row.model, row.number)
