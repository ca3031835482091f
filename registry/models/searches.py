"""Use cases of searches: over all models, and over the versions of all of them."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import lru_cache
from typing import Any

from registry.contract.pages import Page
from registry.contract.versions import Model
from registry.edge.pages import Cursor, Part
from registry.edge.unit import Unit
from registry.errors import Invalid
from registry.lifecycle.filter_words import FilterError
from registry.lifecycle.filters import MetricRef, Searchable, Term, TextTerm, parse
from registry.lifecycle.searching import MODELS, VERSIONS, Key, Order, parse_order
from registry.models import found, model_search, views
from registry.models.found import Found
from registry.models.represent import represent_model
from registry.models.version_search import statement

NEWEST_FIRST = Order(Key.CREATED, descending=True)
BY_NAME = Order(Key.NAME, descending=False)


@dataclass(frozen=True)
class Asked:
    """One page of a search of versions. `after`: the key behind which it begins; None: from the start."""

    terms: Sequence[Term]
    order: Order
    cursor: Cursor
    after: tuple[Any, ...] | None
    limit: int

    @classmethod
    def of(cls, filter: str | None, order_by: str | None, page_token: str | None, limit: int) -> "Asked":
        """Newest first, if nothing else is asked for. Raises Invalid."""
        terms, order, cursor = _understood(filter, order_by)
        return cls(terms, order, cursor, cursor.after(page_token), limit)

    def retired(self, rows: Sequence[Found]) -> Mapping[str, Sequence[str]]:
        """Of the page, by id, what should not be in use any more: names of its aliases."""
        return {row.id: row.aliases for row in rows[: self.limit] if row.stage in views.RETIRED}

    def page(self, rows: Sequence[Found], warnings: Mapping[str, Sequence[str]]) -> bytes:
        """Of what was found: one more than the limit, where there are more."""
        more = len(rows) > self.limit
        token = self.cursor.token(_version_key(self.order, rows[self.limit - 1])) if more else None
        return found.page(rows[: self.limit], warnings, token)


# Dashboards and pipelines ask the same again and again.
@lru_cache(maxsize=256)
def _understood(filter: str | None, order_by: str | None) -> tuple[Sequence[Term], Order, Cursor]:
    terms = _terms(filter, VERSIONS)
    order = _order(order_by, NEWEST_FIRST, metrics=True)
    return terms, order, Cursor.of("versions", terms, order, kinds=_version_kinds(order))


async def versions(unit: Unit, asked: Asked) -> bytes:
    """A `Page[Version]` of those in the token's scope. Raises Forbidden for a deployment outside of it."""
    _require_environments(unit, asked.terms)
    sql, values = statement(asked.terms, asked.order, asked.after, asked.limit, unit.principal.models)
    connection = await unit.session.connection()
    rows = [Found._make(row) for row in (await connection.exec_driver_sql(sql, values)).all()]
    return asked.page(rows, await views.warnings(unit, asked.retired(rows)))


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


def _version_key(order: Order, row: Found) -> tuple[Part, ...]:
    if row.measured is not None:
        return (row.measured, row.id)
    return (row.created_at, row.id) if order.by is Key.CREATED else (row.model, row.number)
