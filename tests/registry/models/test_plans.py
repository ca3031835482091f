"""Searches of a full registry go by their indexes. The plan is asked for, not the time."""

import re
from collections.abc import Callable, Iterator, Mapping
from itertools import islice
from typing import Any, TypeAlias

import psycopg
import pytest
from sqlalchemy import TextClause
from sqlalchemy.dialects.postgresql.psycopg import PGDialect_psycopg

from bench import filled
from registry.edge.principal import hash_secret
from registry.lineage import statements
from registry.models import quick_search, version_search
from registry.models.found import Found
from registry.models.searches import Asked

Connection: TypeAlias = psycopg.Connection[Any]
SECRET = "slp_searches"


@pytest.fixture
def full(database_url: str) -> Iterator[Connection]:
    """100,000 versions of 1,000 models, each with a metric."""
    with psycopg.connect(database_url, autocommit=True) as connection:
        filled.fill(connection)
        connection.execute(
            "INSERT INTO tokens (id, name, hash, roles, models, environments, last_used_at, created_by) "
            """VALUES ('tok_1', 'ana', %s, '["viewer"]', '[]', '[]', now(), 'test')""",
            (hash_secret(SECRET),),
        )
        yield connection


def explained(connection: Connection, statement: str, values: Mapping[str, Any]) -> str:
    """With its parameters bound as when it is really run."""
    plan = connection.execute(f"EXPLAIN (ANALYZE, TIMING OFF) {statement}", values)
    return "\n".join(row[0] for row in plan)


def driven(statement: TextClause) -> str:
    """As the driver gets it."""
    return str(statement.compile(dialect=PGDialect_psycopg()))  # type: ignore[no-untyped-call]


def indexes(plan: str) -> set[str]:
    return set(re.findall(r"(?:using|on) ((?:ix|uq|pk)_\w+)", plan))


def rows_read(plan: str) -> int:
    """The most rows that one node of the plan gave or threw away, over all of its loops."""
    given = [
        float(rows) * int(loops) for rows, loops in re.findall(r"actual rows=([\d.]+) loops=(\d+)", plan)
    ]
    removed = [int(rows) for rows in re.findall(r"Rows Removed by (?:\w+ )*\w+: (\d+)", plan)]
    return int(max([*given, *removed]))


def searches(filter: str, order_by: str) -> list[tuple[str, dict[str, Any]]]:
    """The statements of one page and their values: of the ordinary endpoint, and of the quick one."""
    asked = Asked.of(filter, order_by, None, 100)
    page = version_search.statement(asked.terms, asked.order, asked.after, asked.limit, ())
    return [page, quick_search.statement(asked, hash_secret(SECRET))]


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
    ("name~zzz", "created_at desc", "uq_versions_model_number", 1_000),
    ("name~0042", "created_at desc", "uq_versions_model_number", 1_000),
    ("name~m", "created_at desc", "ix_versions_created_at_id", 1_000),
    ("task~zzz and stage=ready", "created_at desc", "uq_versions_model_number", 1_000),
    ("alias=champion and name=m-0042", "created_at desc", "uq_versions_model_number", 101),
]


def top1(i: int) -> float:
    """As `bench.filled` measured version `i`."""
    return i * 2654435761 % 1000003 / 1000003.0


# By each of the ways that a search by a metric may go, what it must find.
FOUND: Mapping[str, Callable[[int], bool]] = {
    "metrics.top1@valset>0.9985": lambda i: top1(i) > 0.9985,
    "tags.team=other and metrics.top1@valset>0.9985": lambda i: i % 100 != 7 and top1(i) > 0.9985,
    "name~00": lambda i: "00" in f"{i % 1000:04}",
    "name~042 and number>3": lambda i: i % 1000 in (42, 420, 421, 422, 423, 424, 425, 426, 427, 428, 429),
    "tags.team=nlp and metrics.top1@valset>0.9": lambda i: i % 100 == 7 and top1(i) > 0.9,
    "tags.team=other and metrics.top1@valset>0.9": lambda i: i % 100 != 7 and top1(i) > 0.9,
    "metrics.top1@valset>0.2 and metrics.top1@valset<=0.4": lambda i: 0.2 < top1(i) <= 0.4,
}


def test_searches_and_lineage_go_by_their_indexes(full: Connection) -> None:
    for filter, order_by, index, most in SEARCHES:
        for statement, values in searches(filter, order_by):
            plan = explained(full, statement, values)
            assert any(name.startswith(index) for name in indexes(plan)), (filter, plan)
            assert "Seq Scan on versions" not in plan, (filter, plan)
            assert "Seq Scan on metrics" not in plan, (filter, plan)
            assert rows_read(plan) <= most, (filter, rows_read(plan), plan)
    for filter, fits in FOUND.items():
        wanted = list(islice((i for i in reversed(range(filled.VERSIONS)) if fits(i)), 101))
        for (statement, values), skipped in zip(searches(filter, "created_at desc"), (0, 1), strict=True):
            rows = full.execute(statement, values).fetchall()
            found = [int(Found._make(row[skipped:]).id.removeprefix("ver_")) for row in rows]
            assert found == wanted, filter
    for statement, values in searches("tags.team=nlp", "created_at desc"):
        page = explained(full, statement, values)
        # What is told of a version, its whole contract among it, is read for those of the page alone.
        assert re.search(r"Index Scan using pk_versions on versions v .*rows=1.00 loops=101", page), page
    unknown = searches("tags.team=nlp", "created_at desc")[1]
    never = explained(full, unknown[0], {**unknown[1], "hash": hash_secret("another")})
    assert rows_read(never) == 0, never
    for kind, steps in statements.DESCENDANTS.items():
        for _, step in steps:
            plan = explained(full, driven(step), {"ids": ["set-1@1", "ver_0"]})
            assert "Seq Scan on versions" not in plan, (kind, plan)
