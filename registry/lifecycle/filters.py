"""The filter language of searches, parsed into typed terms. Pure.

    name ~ 'senti' and tags.team = 'nlp' and metrics.top1@valset > 0.9 and stage in (ready, archived)

Comparisons are joined by `and`. `=` and `in` mean equal to one of the values, `~` contains (ignoring case).
A value is a bare word or stands in quotes, which are doubled inside. `metrics.NAME@DATASET[@VERSION][/SPLIT]`
is the newest number that was recorded; without a split that of the whole data set.
"""

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from enum import StrEnum

from registry.contract.identity import NAME_PATTERN
from registry.lifecycle.filter_words import FilterError, Word, WordKind, words

MAX_TERMS = 20
MAX_VALUES = 50
MAX_NUMBER = 999_999_999
WHOLE = "all"
YEARS = range(1970, 3000)

_NUMBER = re.compile(r"[+-]?(?:\d{1,30}(?:\.\d{0,30})?|\.\d{1,30})(?:[eE][+-]?\d{1,3})?")
_METRIC = re.compile(
    r"(?P<name>[a-z][a-z0-9_.]{0,63})@(?P<dataset>[^@/]+)(?:@(?P<version>[1-9][0-9]{0,8}))?(?:/(?P<split>.{1,64}))?"
)
METRIC_FORM = "a metric written as metrics.NAME@DATASET, metrics.NAME@DATASET@VERSION or …/SPLIT"


class Op(StrEnum):
    EQ = "="
    NE = "!="
    HAS = "~"
    LT = "<"
    LE = "<="
    GT = ">"
    GE = ">="


class Kind(StrEnum):
    """What a field holds, so what it can be compared with. EXACT: text that is not searched inside."""

    TEXT = "text"
    EXACT = "exact"
    NUMBER = "number"
    MOMENT = "moment"


ORDERED = (Op.EQ, Op.NE, Op.LT, Op.LE, Op.GT, Op.GE)
OPERATORS: Mapping[Kind, tuple[Op, ...]] = {
    Kind.TEXT: (Op.EQ, Op.NE, Op.HAS),
    Kind.EXACT: (Op.EQ, Op.NE),
    Kind.NUMBER: ORDERED,
    Kind.MOMENT: ORDERED,
}


@dataclass(frozen=True, slots=True)
class Field:
    """`choices`: the only values that make sense; empty: any."""

    kind: Kind
    choices: tuple[str, ...] = ()


@dataclass(frozen=True)
class Searchable:
    """What a kind of resource can be searched by."""

    fields: Mapping[str, Field]
    tags: bool = True
    metrics: bool = False

    @property
    def names(self) -> str:
        """For messages."""
        more = ["tags.KEY"] * self.tags + ["metrics.NAME@DATASET"] * self.metrics
        return ", ".join([*self.fields, *more])


@dataclass(frozen=True, slots=True)
class MetricRef:
    """`version` None: of any version of the data set."""

    name: str
    dataset: str
    version: int | None
    split: str


@dataclass(frozen=True, slots=True)
class TextTerm:
    """EQ: one of `values`; other operators have one value."""

    field: str
    op: Op
    values: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class NumberTerm:
    field: str
    op: Op
    value: int


@dataclass(frozen=True, slots=True)
class MomentTerm:
    field: str
    op: Op
    value: datetime


@dataclass(frozen=True, slots=True)
class TagTerm:
    """EQ: one of `values`; other operators have one value. Nothing without the tag matches."""

    key: str
    op: Op
    values: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class MetricTerm:
    metric: MetricRef
    op: Op
    value: float


Term = TextTerm | NumberTerm | MomentTerm | TagTerm | MetricTerm


def parse(text: str, searchable: Searchable) -> tuple[Term, ...]:
    """The terms of a filter, all of which must hold; none for a blank text. Raises FilterError."""
    return _Parser(text, searchable).filter()


def parse_metric(text: str, position: int) -> MetricRef:
    """Of `NAME@DATASET[@VERSION][/SPLIT]`. Raises FilterError."""
    found = _METRIC.fullmatch(text)
    if found is None or not re.match(NAME_PATTERN, found["dataset"]):
        raise FilterError(position, METRIC_FORM, f"metrics.{text}")
    version = int(found["version"]) if found["version"] else None
    return MetricRef(found["name"], found["dataset"], version, found["split"] or WHOLE)


class _Parser:
    def __init__(self, text: str, searchable: Searchable) -> None:
        self._words = words(text)
        self._searchable = searchable
        self._word = next(self._words)

    def _take(self) -> Word:
        taken = self._word
        if taken.kind is not WordKind.END:
            self._word = next(self._words)
        return taken

    def filter(self) -> tuple[Term, ...]:
        terms: list[Term] = []
        while self._word.kind is not WordKind.END or terms:
            if len(terms) == MAX_TERMS:
                raise FilterError(self._word.position, f"at most {MAX_TERMS} comparisons", self._word.raw)
            terms.append(self._term())
            if self._word.kind is WordKind.END:
                break
            joined = self._take()
            if joined.kind is not WordKind.BARE or joined.text.lower() != "and":
                raise FilterError(joined.position, "'and' or the end", joined.raw)
        return tuple(terms)

    def _term(self) -> Term:
        named = self._take()
        if named.kind is not WordKind.BARE:
            raise FilterError(named.position, f"a field ({self._searchable.names})", named.raw)
        if named.text.startswith("tags.") and self._searchable.tags:
            return self._tag(named)
        if named.text.startswith("metrics.") and self._searchable.metrics:
            metric = parse_metric(named.text.removeprefix("metrics."), named.position)
            op, _ = self._operator(ORDERED, lists=False)
            return MetricTerm(metric, op, self._float())
        field = self._searchable.fields.get(named.text)
        if field is None:
            raise FilterError(named.position, f"a field ({self._searchable.names})", named.raw)
        op, listed = self._operator(OPERATORS[field.kind], lists=field.kind in (Kind.TEXT, Kind.EXACT))
        if field.kind is Kind.NUMBER:
            return NumberTerm(named.text, op, self._integer())
        if field.kind is Kind.MOMENT:
            return MomentTerm(named.text, op, self._moment())
        return TextTerm(named.text, op, self._values(listed, field.choices))

    def _tag(self, named: Word) -> TagTerm:
        key = named.text.removeprefix("tags.")
        quoted = self._word.kind is WordKind.QUOTED and self._word.position == named.after
        if not key and quoted:
            key = self._take().text
        if not key:
            raise FilterError(named.after, "the tag's key: tags.team, or tags.'any text'", self._word.raw)
        op, listed = self._operator(OPERATORS[Kind.TEXT], lists=True)
        return TagTerm(key, op, self._values(listed, ()))

    def _operator(self, possible: tuple[Op, ...], *, lists: bool) -> tuple[Op, bool]:
        """The operator, and whether a list of values follows."""
        taken = self._take()
        if lists and taken.kind is WordKind.BARE and taken.text.lower() == "in":
            return Op.EQ, True
        if taken.kind is not WordKind.OPERATOR or Op(taken.text) not in possible:
            names = [str(op) for op in possible] + ["in"] * lists
            raise FilterError(taken.position, f"one of {' '.join(names)}", taken.raw)
        return Op(taken.text), False

    def _values(self, listed: bool, choices: tuple[str, ...]) -> tuple[str, ...]:
        if not listed:
            return (self._text(choices),)
        self._mark("(")
        values = [self._text(choices)]
        while self._word.text == "," and self._word.kind is WordKind.MARK:
            self._take()
            if len(values) == MAX_VALUES:
                raise FilterError(self._word.position, f"at most {MAX_VALUES} values", self._word.raw)
            values.append(self._text(choices))
        self._mark(")")
        return tuple(values)

    def _mark(self, wanted: str) -> None:
        taken = self._take()
        if taken.kind is not WordKind.MARK or taken.text != wanted:
            raise FilterError(taken.position, f"'{wanted}'", taken.raw)

    def _value(self, expected: str) -> Word:
        taken = self._take()
        if taken.kind not in (WordKind.BARE, WordKind.QUOTED):
            raise FilterError(taken.position, expected, taken.raw)
        return taken

    def _text(self, choices: tuple[str, ...]) -> str:
        expected = f"one of {', '.join(choices)}" if choices else "a value, in quotes if it is not one word"
        taken = self._value(expected)
        if choices and taken.text not in choices:
            raise FilterError(taken.position, expected, taken.raw)
        return taken.text

    def _integer(self) -> int:
        expected = f"a whole number from 0 to {MAX_NUMBER}"
        taken = self._value(expected)
        if not re.fullmatch(r"[0-9]{1,9}", taken.text):
            raise FilterError(taken.position, expected, taken.raw)
        return int(taken.text)

    def _float(self) -> float:
        taken = self._value("a number")
        if not _NUMBER.fullmatch(taken.text) or not math.isfinite(value := float(taken.text)):
            raise FilterError(taken.position, "a number", taken.raw)
        return value

    def _moment(self) -> datetime:
        expected = "a time such as 2026-01-31 or 2026-01-31T12:00:00Z"
        taken = self._value(expected)
        try:
            moment = datetime.fromisoformat(taken.text)
        except ValueError as error:
            raise FilterError(taken.position, expected, taken.raw) from error
        if moment.year not in YEARS:
            raise FilterError(taken.position, expected, taken.raw)
        return moment if moment.tzinfo else moment.replace(tzinfo=UTC)
