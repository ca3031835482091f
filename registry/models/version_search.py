"""Searches of versions as SQL text: building the same by objects took longer than PostgreSQL took to answer.

Names of columns are ours, every value is a bound parameter. Conditions repeat the expressions of the indexes
(see `tables.models`) word for word.
"""

from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any, TypeAlias, assert_never

import orjson

from registry.lifecycle.filters import (
    MetricRef,
    MetricTerm,
    MomentTerm,
    NumberTerm,
    Op,
    TagTerm,
    Term,
    TextTerm,
)
from registry.lifecycle.releases import ACTIVE_PHASES
from registry.lifecycle.searching import Key, Order
from registry.models.found import COLUMNS
from registry.tables.models import COMMIT, TRAINING_NAME, TRAINING_RUN, TRAINING_VERSION

SIGNS: Mapping[Op, str] = {
    Op.EQ: "=",
    Op.NE: "<>",
    Op.LT: "<",
    Op.LE: "<=",
    Op.GT: ">",
    Op.GE: ">=",
}

_COLUMNS_OF: Mapping[Key, tuple[str, str]] = {
    Key.CREATED: ("created_at", "id"),
    Key.NAME: ("model", "number"),
}
KEY = "v.id, v.created_at, v.model, v.number"

# So many versions are looked at one by one rather than in the order of an index.
FEW_MEASURED = 1000
FEW_OTHERWISE = 3000
FEW_MODELS = 30
# Fields of a version that are its model's: there are few of those.
OF_MODELS = {"name": "name", "owner": "owner", "task": "task"}


class Bound(dict[str, Any]):
    """The parameters of one statement."""

    def __call__(self, value: Any) -> str:
        """How the statement writes this value."""
        name = f"p{len(self)}"
        self[name] = value
        return f"%({name})s"


def statement(
    terms: Sequence[Term],
    order: Order,
    after: tuple[Any, ...] | None,
    limit: int,
    models: Collection[str],
) -> tuple[str, Bound]:
    """The one statement of a page, and its parameters in the driver's form: `Found` of one version more than
    `limit`, in order, `measured` where they are ordered by a metric: only versions that have it are found
    then. `after`: the key behind which to begin."""
    bound = Bound()
    keys = _keys(order)
    wheres = [f"v.model = ANY({bound(sorted(models))})"] if models else []
    if after is not None:
        here = ", ".join(bound(part) for part in after)
        wheres.append(f"({', '.join(keys)}) {'<' if order.descending else '>'} ({here})")
    direction = "DESC" if order.descending else "ASC"
    sorted_by = f"ORDER BY {', '.join(f'{key} {direction}' for key in keys)}"
    page = f"LIMIT {bound(limit + 1)}"
    measures = [term for term in terms if isinstance(term, MetricTerm)]
    if measures and not isinstance(order.by, MetricRef):
        others = [term for term in terms if not isinstance(term, MetricTerm)]
        keyed = _measured(measures, others, wheres, sorted_by, page, bound)
        return _shown(keyed, order), bound
    names = [term for term in terms if isinstance(term, TextTerm) and term.field in OF_MODELS]
    if any(term.op is Op.HAS for term in names) and order.by is Key.CREATED:
        rest = [term for term in terms if term not in names]
        return _shown(_named(names, rest, wheres, sorted_by, page, bound), order), bound
    tables, measured = "versions v", "NULL::double precision"
    if isinstance(order.by, MetricRef):
        tables, measured = "metrics m JOIN versions v ON v.id = m.version_id", "m.value"
        wheres.append(
            f"{_of('m', order.by, bound)} AND m.id = {_newest('id', 'm.version_id', order.by, bound)}"
        )
    wheres += (_condition(term, bound) for term in terms)
    # Fragments of this file; every value is bound.
    keyed = (
        f"SELECT {KEY}, {measured} AS measured FROM {tables}"  # noqa: S608
        f" WHERE {' AND '.join(wheres) or 'true'} {sorted_by} {page}"
    )
    return _shown(keyed, order), bound


def sorting(order: Order, of: str) -> str:
    """ORDER BY for rows that were found, named `of`."""
    direction = "DESC" if order.descending else "ASC"
    names = ("measured", "id") if isinstance(order.by, MetricRef) else _COLUMNS_OF[order.by]
    return f"ORDER BY {', '.join(f'{of}.{name} {direction}' for name in names)}"


def _shown(keyed: str, order: Order) -> str:
    """What is told of the versions of a page is read of those alone, not of all that were sorted."""
    return (
        f"SELECT {COLUMNS}, k.measured AS measured FROM ({keyed}) k JOIN versions v ON v.id = k.id"  # noqa: S608
        f" {sorting(order, 'k')}"
    )


def _keys(order: Order) -> tuple[str, ...]:
    if isinstance(order.by, MetricRef):
        # By the metric's own columns: that is the order of its index.
        return ("m.value", "m.version_id")
    return tuple(f"v.{name}" for name in _COLUMNS_OF[order.by])


def _measured(
    measures: Sequence[MetricTerm],
    others: Sequence[Term],
    wheres: Sequence[str],
    sorted_by: str,
    page: str,
    bound: Bound,
) -> str:
    """Versions by their newest numbers. PostgreSQL can't know how many versions have such a number and such a
    tag, and a wrong guess costs a look at every one of them. So the statement counts, up to a bound, and goes
    one of three ways; the other two cost nothing:

    few have such a number: look at those; few fulfil the other conditions: sort those, and look at their
    numbers one by one until the page is full; many of both: the same in the order of the index.
    """
    first, conditions = measures[0], [*wheres, *(_condition(term, bound) for term in others)]
    newest = " AND ".join(_newest_is(term, bound) for term in measures)
    # In the third way no other index than that of the order may be chosen.
    hidden = [*wheres, *(f"({_condition(term, bound)}) IS TRUE" for term in others)]
    few = f"""few AS MATERIALIZED (
        SELECT o.version_id FROM metrics o
        WHERE {_of("o", first.metric, bound)} AND {_compared("o.value", first, bound)}
        ORDER BY o.value LIMIT {FEW_MEASURED + 1}
    ), more AS MATERIALIZED (SELECT count(*) > {FEW_MEASURED} AS yes FROM few)"""  # noqa: S608
    ways = [
        f"""SELECT {KEY} FROM (SELECT DISTINCT version_id FROM few) f,
            LATERAL (SELECT v.* FROM versions v WHERE v.id = f.version_id OFFSET 0) v
        WHERE NOT (SELECT yes FROM more) AND {" AND ".join([*conditions, newest])} {sorted_by} {page}"""  # noqa: S608
    ]
    last = "more"
    if others:
        last = "wide"
        few += f""", near AS MATERIALIZED (
            SELECT {KEY} FROM versions v WHERE (SELECT yes FROM more) AND {" AND ".join(conditions)}
            LIMIT {FEW_OTHERWISE + 1}
        ), wide AS MATERIALIZED (SELECT count(*) > {FEW_OTHERWISE} AS yes FROM near)"""  # noqa: S608
        ways.append(
            f"""SELECT {KEY} FROM (SELECT v.* FROM near v {sorted_by} OFFSET 0) v
            WHERE NOT (SELECT yes FROM wide) AND {newest} {page}"""  # noqa: S608
        )
    ways.append(
        f"""SELECT {KEY} FROM versions v
        WHERE (SELECT yes FROM {last}) AND {" AND ".join([*hidden, newest])} {sorted_by} {page}"""  # noqa: S608
    )
    found = " UNION ALL ".join(f"({way})" for way in ways)
    return f"WITH {few} SELECT v.*, NULL::double precision AS measured FROM ({found}) v {sorted_by} {page}"  # noqa: S608


def _named(
    names: Sequence[TextTerm],
    others: Sequence[Term],
    wheres: Sequence[str],
    sorted_by: str,
    page: str,
    bound: Bound,
) -> str:
    """Versions of models whose name (or owner, task) contains something. PostgreSQL takes it that a third of
    all do, and walks through every version where hardly one does. So the models are counted, up to a bound:
    few of them are looked up one by one, many are met soon in the order of the index."""
    models = " AND ".join(_text(f"o.{OF_MODELS[term.field]}", term, bound) for term in names)
    conditions = [*wheres, *(_condition(term, bound) for term in others)]
    within = " AND ".join(["v.model = n.name", *conditions])
    among = " AND ".join([f"v.model IN (SELECT o.name FROM models o WHERE {models})", *conditions])  # noqa: S608
    found = f"""(SELECT {KEY} FROM named n,
            LATERAL (SELECT v.* FROM versions v WHERE {within} OFFSET 0) v
        WHERE NOT (SELECT yes FROM many) {sorted_by} {page}) UNION ALL (
        SELECT {KEY} FROM versions v WHERE (SELECT yes FROM many) AND {among} {sorted_by} {page})"""  # noqa: S608
    return f"""WITH named AS MATERIALIZED (SELECT o.name FROM models o WHERE {models} LIMIT {FEW_MODELS + 1}),
        many AS MATERIALIZED (SELECT count(*) > {FEW_MODELS} AS yes FROM named)
        SELECT v.*, NULL::double precision AS measured FROM ({found}) v {sorted_by} {page}"""  # noqa: S608


def _condition(term: Term, bound: Bound) -> str:
    match term:
        case TextTerm():
            return TEXTS[term.field](term, bound)
        case NumberTerm():
            return f"v.number {SIGNS[term.op]} {bound(term.value)}"
        case MomentTerm():
            return f"v.created_at {SIGNS[term.op]} {bound(term.value)}"
        case TagTerm():
            return _tag(term, bound)
        case MetricTerm():
            return _metric(term, bound)
        case _:
            assert_never(term)


def _text(column: str, term: TextTerm | TagTerm, bound: Bound) -> str:
    """NULL, so false, where there is nothing to compare."""
    if term.op is Op.HAS:
        return f"strpos(lower({column}), {bound(term.values[0].lower())}) > 0"
    if term.op is Op.EQ and len(term.values) > 1:
        return f"{column} = ANY({bound(list(term.values))})"
    return f"{column} {SIGNS[term.op]} {bound(term.values[0])}"


def _tag(term: TagTerm, bound: Bound) -> str:
    """EQ as containment, which the index knows; the others skip versions without the tag."""
    if term.op is not Op.EQ:
        return _text(f"(v.tags ->> {bound(term.key)})", term, bound)
    pairs = (orjson.dumps({term.key: value}).decode() for value in term.values)
    return f"({' OR '.join(f'v.tags @> CAST({bound(pair)} AS jsonb)' for pair in pairs)})"


def _newest_is(term: MetricTerm, bound: Bound) -> str:
    """The newest number that was recorded."""
    return _compared(_newest("value", "v.id", term.metric, bound), term, bound)


def _metric(term: MetricTerm, bound: Bound) -> str:
    """The newest number that was recorded. Versions that ever had such a number are looked up first: what
    is recorded is never changed, so the newest is among them, and the index of values finds them."""
    once = (
        f"SELECT o.version_id FROM metrics o WHERE {_of('o', term.metric, bound)}"  # noqa: S608
        f" AND {_compared('o.value', term, bound)}"
    )
    return f"v.id IN ({once}) AND {_newest_is(term, bound)}"


def _compared(value: str, term: MetricTerm, bound: Bound) -> str:
    return f"{value} {SIGNS[term.op]} {bound(term.value)}"


def _of(table: str, metric: MetricRef, bound: Bound) -> str:
    same = (
        f"{table}.dataset = {bound(metric.dataset)} AND {table}.name = {bound(metric.name)}"
        f" AND {table}.split = {bound(metric.split)}"
    )
    if metric.version is None:
        return same
    return f"{same} AND {table}.dataset_version = {bound(metric.version)}"


def _newest(column: str, version: str, metric: MetricRef, bound: Bound) -> str:
    """`column` of the newest record of a version: one step into the index of its metrics."""
    return (
        f"(SELECT n.{column} FROM metrics n WHERE n.version_id = {version}"  # noqa: S608
        f" AND {_of('n', metric, bound)} ORDER BY n.id DESC LIMIT 1)"
    )


Texts: TypeAlias = Callable[[TextTerm, Bound], str]


def _column(column: str) -> Texts:
    return lambda term, bound: _text(column, term, bound)


def _model(column: str) -> Texts:
    """By something of the model: there are few of them."""
    return lambda term, bound: (
        f"v.model IN (SELECT o.name FROM models o WHERE {_text(f'o.{column}', term, bound)})"  # noqa: S608
    )


def _name(term: TextTerm, bound: Bound) -> str:
    return _text("v.model", term, bound) if term.op is Op.EQ else _model("name")(term, bound)


def _any_of(equal: Callable[[str], str]) -> Texts:
    """`equal` is the condition for a list of values, given as it is bound."""

    def condition(term: TextTerm, bound: Bound) -> str:
        found = equal(f"CAST({bound(list(term.values))} AS text[])")
        return f"NOT ({found})" if term.op is Op.NE else f"({found})"

    return condition


def _digest(values: str) -> str:
    """The version's own, or that of one of its files."""
    return f"v.digest = ANY({values}) OR v.digests && {values}"


def _deployment(values: str) -> str:
    """Serving there now, or on trial there."""
    active = ", ".join(f"'{phase}'" for phase in sorted(ACTIVE_PHASES))
    stable = (
        f"SELECT d.stable_arm FROM deployments d JOIN unnest({values}) AS place"  # noqa: S608
        " ON d.environment = split_part(place, '/', 1) AND d.name = split_part(place, '/', 2)"
    )
    trial = f"SELECT r.arm_id FROM releases r WHERE r.deployment = ANY({values}) AND r.phase IN ({active})"  # noqa: S608
    return f"v.id IN (SELECT a.version_id FROM arms a WHERE a.id IN ({stable}) OR a.id IN ({trial}))"  # noqa: S608


def _alias(values: str) -> str:
    return f"(v.model, v.number) IN (SELECT a.model, a.version FROM aliases a WHERE a.name = ANY({values}))"  # noqa: S608


def _training_data(values: str) -> str:
    """NAME, or NAME@VERSION."""
    name, version = f"(v.{TRAINING_NAME})", f"(v.{TRAINING_VERSION})"
    names = f"SELECT split_part(value, '@', 1) FROM unnest({values}) AS value"  # noqa: S608
    return f"{name} IN ({names}) AND ({name} = ANY({values}) OR {name} || '@' || {version} = ANY({values}))"


TEXTS: Mapping[str, Texts] = {
    "name": _name,
    "owner": _model("owner"),
    "task": _model("task"),
    "stage": _column("v.phase"),
    "framework": _column("v.framework"),
    "created_by": _column("v.created_by"),
    "commit": _column(f"(v.{COMMIT})"),
    "training_run": _column(f"(v.{TRAINING_RUN})"),
    "digest": _any_of(_digest),
    "deployment": _any_of(_deployment),
    "alias": _any_of(_alias),
    "training_data": _any_of(_training_data),
}
