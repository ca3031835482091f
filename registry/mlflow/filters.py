"""MLflow's filter and order strings, read: `name LIKE 'iris%' AND tags.team = 'ml'`, `name DESC`. Pure."""

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from registry.errors import Invalid

Comparator = Literal["=", "!=", "<", "<=", ">", ">=", "LIKE", "ILIKE", "IN", "NOT IN"]

TEXT: tuple[Comparator, ...] = ("=", "!=", "LIKE", "ILIKE")
LISTED: tuple[Comparator, ...] = (*TEXT, "IN", "NOT IN")
NUMERIC: tuple[Comparator, ...] = ("=", "!=", "<", "<=", ">", ">=")

# What can be asked of each attribute.
MODEL_ATTRIBUTES: Mapping[str, tuple[Comparator, ...]] = {"name": LISTED}
VERSION_ATTRIBUTES: Mapping[str, tuple[Comparator, ...]] = {
    "name": LISTED,
    "run_id": LISTED,
    "source_path": TEXT,
    "version_number": NUMERIC,
}
MODEL_ORDERS = ("name", "creation_timestamp", "last_updated_timestamp")
VERSION_ORDERS = ("name", "version_number", "creation_timestamp", "last_updated_timestamp")
LONGEST = 4096

_QUOTED = r"'[^']*'|\"[^\"]*\""
_TOKEN = re.compile(
    rf"""\s*(?:
        (?P<text>{_QUOTED})
        |(?P<number>-?[0-9]+)(?![\w.])
        |(?P<comparator>!=|<=|>=|=|<|>|NOT\s+IN\b|IN\b|ILIKE\b|LIKE\b)
        |(?P<joint>AND\b)
        |(?P<mark>[(),])
        |(?P<key>(?:\w+\.)?(?:`[^`]*`|"[^"]*"|[\w][\w.\-/]*))
    )""",
    re.VERBOSE | re.IGNORECASE,
)
_ORDER = re.compile(r"\s*(?:attributes?\.)?`?(?P<key>\w+)`?(?:\s+(?P<way>ASC|DESC))?\s*", re.IGNORECASE)


@dataclass(frozen=True)
class Condition:
    """`value`: a text, an integer for numeric attributes, or several texts for IN."""

    kind: Literal["attribute", "tag"]
    key: str
    comparator: Comparator
    value: str | int | tuple[str, ...]


@dataclass(frozen=True)
class Order:
    key: str
    ascending: bool


@dataclass(frozen=True)
class _Token:
    kind: str
    text: str


def read_filter(given: str | None, attributes: Mapping[str, tuple[Comparator, ...]]) -> tuple[Condition, ...]:
    """Raises Invalid that names what is not understood."""
    tokens = _tokens(given or "")
    conditions: list[Condition] = []
    at = 0
    while at < len(tokens):
        if conditions:
            if tokens[at].kind != "joint":
                raise _unclear(f"{tokens[at].text!r} stands where AND is expected")
            at += 1
        condition, at = _condition(tokens, at, attributes)
        conditions.append(condition)
    return tuple(conditions)


def _tokens(given: str) -> list[_Token]:
    if len(given) > LONGEST:
        raise _unclear(f"it has {len(given)} characters, {LONGEST} are allowed")
    tokens: list[_Token] = []
    at = 0
    while given[at:].strip():
        found = _TOKEN.match(given, at)
        if found is None or found.lastgroup is None:
            raise _unclear(f"{given[at:].strip()[:40]!r} is not understood")
        tokens.append(_Token(found.lastgroup, found[found.lastgroup]))
        at = found.end()
    return tokens


def _condition(
    tokens: Sequence[_Token], at: int, attributes: Mapping[str, tuple[Comparator, ...]]
) -> tuple[Condition, int]:
    if len(tokens) < at + 3:
        raise _unclear("a condition is key, comparator and value")
    kind, key = _key(tokens[at], attributes)
    comparator = _comparator(tokens[at + 1])
    allowed = TEXT if kind == "tag" else attributes[key]
    if comparator not in allowed:
        raise _unclear(f"{key} can't be compared by {comparator}; possible are {', '.join(allowed)}")
    if comparator in ("IN", "NOT IN"):
        values, after = _list(tokens, at + 2)
        return Condition(kind, key, comparator, values), after
    value = _value(tokens[at + 2], key, numeric=kind == "attribute" and allowed is NUMERIC)
    return Condition(kind, key, comparator, value), at + 3


def _key(token: _Token, attributes: Iterable[str]) -> tuple[Literal["attribute", "tag"], str]:
    known = ", ".join((*attributes, "tags.KEY"))
    if token.kind != "key":
        raise _unclear(f"{token.text!r} is no key; known are {known}")
    entity, dot, rest = token.text.partition(".")
    bare = rest.strip('`"')
    if dot and entity.lower() in ("tag", "tags") and bare:
        return "tag", bare
    key = bare if dot and entity.lower() in ("attribute", "attributes") else token.text.strip('`"')
    if key not in attributes:
        raise _unclear(f"{token.text!r} is no key; known are {known}")
    return "attribute", key


def _comparator(token: _Token) -> Comparator:
    said = re.sub(r"\s+", " ", token.text.upper())
    for known in ("=", "!=", "<", "<=", ">", ">=", "LIKE", "ILIKE", "IN", "NOT IN"):
        if token.kind == "comparator" and said == known:
            return known
    raise _unclear(f"{token.text!r} is no comparator")


def _value(token: _Token, key: str, *, numeric: bool) -> str | int:
    if numeric:
        if token.kind != "number" or len(token.text) > 18:
            raise _unclear(f"{key} is compared with an integer, not with {token.text}")
        return int(token.text)
    if token.kind != "text":
        raise _unclear(f"{key} is compared with a quoted text, not with {token.text}")
    return token.text[1:-1]


def _list(tokens: Sequence[_Token], at: int) -> tuple[tuple[str, ...], int]:
    values: list[str] = []
    if tokens[at].text != "(":
        raise _unclear("IN wants a list: ('a', 'b')")
    for index in range(at + 1, len(tokens)):
        token, wants_value = tokens[index], (index - at) % 2 == 1
        if wants_value and token.kind == "text":
            values.append(token.text[1:-1])
        elif not wants_value and token.text == ")":
            return tuple(values), index + 1
        elif wants_value or token.text != ",":
            break
    raise _unclear("IN wants a list of quoted texts: ('a', 'b')")


def read_orders(given: Sequence[str], known: Sequence[str], otherwise: Sequence[Order]) -> tuple[Order, ...]:
    """With what makes the order total at the end. Raises Invalid."""
    orders: list[Order] = []
    for text in given:
        found = _ORDER.fullmatch(text)
        key = found["key"] if found else ""
        if found is None or key not in known:
            raise Invalid(
                f"order_by {text[:80]!r} is not understood",
                f"write KEY or KEY DESC; keys are {', '.join(known)}",
            )
        if key in (order.key for order in orders):
            raise Invalid(f"order_by names {key} twice", "name each key once")
        orders.append(Order(key, (found["way"] or "ASC").upper() == "ASC"))
    named = {order.key for order in orders}
    return (*orders, *(order for order in otherwise if order.key not in named))


def _unclear(why: str) -> Invalid:
    return Invalid(
        f"the filter is not understood: {why}",
        "write conditions joined by AND, such as: name LIKE 'iris%' AND tags.team = 'ml'",
    )
