"""Searches of a full registry go by their indexes. The plan is asked for, not the time."""

import re
from collections.abc import Callable, Iterator, Mapping
from itertools import islice
from typing import Any

import psycopg
import pytest
from sqlalchemy import ClauseElement, Connection, Executable, TextClause, create_engine, text
from sqlalchemy.ext.compiler import compiles

from bench import filled
from registry.database import driver_url
from registry.lifecycle.filters import parse
from registry.lifecycle.searching import VERSIONS, parse_order
from registry.lineage import statements
from registry.models import version_search


@pytest.fixture
def full(database_url: str) -> Iterator[Connection]:
    """100,000 versions of 1,000 models, each with a metric."""
    with psycopg.connect(database_url, autocommit=True) as connection:
        filled.fill(connection)
    engine = create_engine(driver_url(database_url))
    with engine.connect() as made:
        yield made
    engine.dispose()


class Explain(Executable, ClauseElement):
    """A statement with its parameters bound as when it is really run."""

    inherit_cache = False

    def __init__(self, statement: TextClause) -> None:
        self.statement = statement


@compiles(Explain)
def _explain(element: Explain, compiler: Any, **options: Any) -> str:
    return f"EXPLAIN (ANALYZE, TIMING OFF) {compiler.process(element.statement, **options)}"


def explained(connection: Connection, statement: TextClause, values: dict[str, Any]) -> str:
    return "\n".join(row[0] for row in connection.execute(Explain(statement), values))


def indexes(plan: str) -> set[str]:
    return set(re.findall(r"(?:using|on) ((?:ix|uq|pk)_\w+)", plan))


def rows_read(plan: str) -> int:
    """The most rows that one node of the plan gave or threw away, over all of its loops."""
    given = [
        float(rows) * int(loops) for rows, loops in re.findall(r"actual rows=([\d.]+) loops=(\d+)", plan)
    ]
    removed = [int(rows) for rows in re.findall(r"Rows Removed by (?:\w+ )*\w+: (\d+)", plan)]
    return int(max([*given, *removed]))


def search(filter: str, order_by: str) -> tuple[TextClause, dict[str, Any]]:
    """The statement of one page, and its values."""
    terms, order = parse(filter, VERSIONS), parse_order(order_by, metrics=True)
    sql, values = version_search.statement(terms, order, None, 100, ())
    return text(sql), values


# Filter, order, an index that must be used, and how many rows any part of the plan may touch.
SEARCHES = [
    ("", "created_at desc", "ix_versions_created_at_id", 101),
    ("tags.team=nlp", "created_at desc", "ix_versions_", 12_000),
    ("tags.n='4711'", "created_at desc", "ix_versions_tags", 10),
    ("tags.team=nlp and metrics.top1@valset>0.9", "created_at desc", "ix_metrics_", 12_000),
    ("metrics.top1@valset>0.9985", "created_at desc", "ix_metrics_value", 500),
    ("", "metrics.top1@valset desc", "ix_metrics_value", 500),
    ("stage=archived", "created_at desc", "ix_versions_phase", 500),
    ("name=m-0042", "created_at desc", "uq_versions_model_number", 101),
    ("commit=c" + "0" * 32, "created_at desc", "ix_versions_commit", 10),
    ("training_run=run-77", "created_at desc", "ix_versions_training_run", 10),
    ("training_data=set-77", "created_at desc", "ix_versions_training_data", 500),
    ("digest=sha256-" + "0" * 64, "created_at desc", "ix_versions_digest", 10),
    ("deployment=prod/zoo", "created_at desc", "uq_deployments_environment_name", 10),
    ("alias=champion and name=m-0042", "created_at desc", "uq_versions_model_number", 101),
]


def top1(i: int) -> float:
    """As `bench.filled` measured version `i`."""
    return i * 2654435761 % 1000003 / 1000003.0


# By each of the ways that a search by a metric may go, what it must find.
FOUND: Mapping[str, Callable[[int], bool]] = {
    "metrics.top1@valset>0.9985": lambda i: top1(i) > 0.9985,
    "tags.team=other and metrics.top1@valset>0.9985": lambda i: i % 100 != 7 and top1(i) > 0.9985,
    "tags.team=nlp and metrics.top1@valset>0.9": lambda i: i % 100 == 7 and top1(i) > 0.9,
    "tags.team=other and metrics.top1@valset>0.9": lambda i: i % 100 != 7 and top1(i) > 0.9,
    "metrics.top1@valset>0.2 and metrics.top1@valset<=0.4": lambda i: 0.2 < top1(i) <= 0.4,
}


def test_searches_and_lineage_go_by_their_indexes(full: Connection) -> None:
    for filter, order_by, index, most in SEARCHES:
        plan = explained(full, *search(filter, order_by))
        assert any(name.startswith(index) for name in indexes(plan)), (filter, plan)
        assert "Seq Scan on versions" not in plan, (filter, plan)
        assert "Seq Scan on metrics" not in plan, (filter, plan)
        assert rows_read(plan) <= most, (filter, rows_read(plan), plan)
    for filter, fits in FOUND.items():
        statement, values = search(filter, "created_at desc")
        numbers = [int(row.id.removeprefix("ver_")) for row in full.execute(statement, values)]
        assert numbers == list(islice((i for i in reversed(range(filled.VERSIONS)) if fits(i)), 101)), filter
    for kind, steps in statements.DESCENDANTS.items():
        for _, statement in steps:
            plan = explained(full, statement, {"ids": ["set-1@1", "ver_0"]})
            assert "Seq Scan on versions" not in plan, (kind, plan)
