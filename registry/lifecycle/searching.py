"""What models and versions are searched by, and in which orders. Pure."""

from dataclasses import dataclass
from enum import StrEnum

from registry.contract.versions import Framework, VersionStage
from registry.lifecycle.filter_words import FilterError, WordKind, words
from registry.lifecycle.filters import Field, Kind, MetricRef, Searchable, parse_metric

MODELS = Searchable(
    {
        "name": Field(Kind.TEXT),
        "owner": Field(Kind.TEXT),
        "task": Field(Kind.TEXT),
        "description": Field(Kind.TEXT),
        "created_by": Field(Kind.EXACT),
        "created_at": Field(Kind.MOMENT),
        "latest_version": Field(Kind.NUMBER),
        "deployment": Field(Kind.EXACT),
    }
)

VERSIONS = Searchable(
    {
        "name": Field(Kind.TEXT),
        "owner": Field(Kind.TEXT),
        "task": Field(Kind.TEXT),
        "number": Field(Kind.NUMBER),
        "stage": Field(Kind.EXACT, tuple(VersionStage)),
        "framework": Field(Kind.EXACT, tuple(Framework)),
        "digest": Field(Kind.EXACT),
        "deployment": Field(Kind.EXACT),
        "alias": Field(Kind.EXACT),
        "commit": Field(Kind.EXACT),
        "training_run": Field(Kind.EXACT),
        "training_data": Field(Kind.EXACT),
        "created_by": Field(Kind.EXACT),
        "created_at": Field(Kind.MOMENT),
    },
    metrics=True,
)


class Key(StrEnum):
    """What lists are ordered by; equal ones by identity, so that an order is always total."""

    NAME = "name"
    CREATED = "created_at"


@dataclass(frozen=True, slots=True)
class Order:
    by: Key | MetricRef
    descending: bool


def parse_order(text: str, *, metrics: bool) -> Order:
    """Of `KEY [asc|desc]`; with `metrics` a key may be `metrics.NAME@DATASET`. Raises FilterError."""
    expected = f"one of {', '.join([*Key, *(['metrics.NAME@DATASET'] if metrics else [])])}"
    key, *rest = words(text)
    by: Key | MetricRef
    if key.kind is WordKind.BARE and key.text in tuple(Key):
        by = Key(key.text)
    elif key.kind is WordKind.BARE and metrics and key.text.startswith("metrics."):
        by = parse_metric(key.text.removeprefix("metrics."), key.position)
    else:
        raise FilterError(key.position, expected, key.raw)
    direction = rest[0]
    if direction.kind is WordKind.END:
        return Order(by, descending=False)
    if direction.text.lower() not in ("asc", "desc"):
        raise FilterError(direction.position, "asc, desc or the end", direction.raw)
    if rest[1].kind is not WordKind.END:
        raise FilterError(rest[1].position, "the end", rest[1].raw)
    return Order(by, descending=direction.text.lower() == "desc")
