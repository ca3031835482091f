"""What served when: routes and receipts in one query, by indexes, however long the history is."""

from datetime import UTC, datetime, timedelta
from typing import Any

import psycopg
import pytest
from sqlalchemy import text
from sqlalchemy.dialects import postgresql

from registry.audit.serving import SERVING
from registry.client import ApiError, audit
from registry.contract.audit import Serving
from registry.contract.tokens import Role
from tests.registry.conftest import Registry

START = datetime(2026, 1, 1, tzinfo=UTC)
DEPLOYMENTS, GENERATIONS, NODES = 20, 300, 10
ARM = f"arm-{'0' * 64}"
# Generation g of every deployment begins g minutes after START; nodes follow one second later, n1 never
# does for the last one. Every tenth generation is a rollback.
HISTORY = (
    "INSERT INTO models (name, task, description, owner, tags, last_number, created_by) VALUES "
    "('ants', '', '', 'ana', '{}', 0, 'ana'), ('bees', '', '', 'ana', '{}', 0, 'ana')",
    "INSERT INTO versions (id, model, number, framework, files, digests, digest, contract, lineage, "
    "description, tags, phase, phase_reason, created_by) VALUES ('ver_1', 'ants', 1, 'onnx', '[]', '{}', "
    "'sha256-0', '{}', '{}', '', '{}', 'ready', '', 'ana')",
    "INSERT INTO arms (id, version_id, precision, engines, pipeline, proven) VALUES "
    f"('{ARM}', 'ver_1', 'fp32', '{{}}', 'p', true)",
    "INSERT INTO deployments (id, environment, name, model, selector, unit, policy, generation, "
    "last_release, pinned, pin_reason, created_by) "
    "SELECT 'dep_' || n, CASE WHEN n % 2 = 0 THEN 'prod' ELSE 'qa' END, "
    "'d' || lpad(n::text, 2, '0'), CASE WHEN n % 4 = 0 THEN 'ants' ELSE 'bees' END, '{}', '{}', '{}', "
    f"{GENERATIONS}, 0, false, '', 'ana' FROM generate_series(1, {DEPLOYMENTS}) AS n",
    "INSERT INTO routes (deployment_id, generation, timeline, cause, actor, reason, release, body, "
    "created_at) "
    "SELECT d.id, g, 1, CASE WHEN g % 10 = 0 THEN 'roll_back' ELSE 'step' END, 'ana', 'why ' || g, NULL, "
    "jsonb_build_object('arms', jsonb_build_array(jsonb_build_object('arm', 'arm-' || repeat('0', 64), "
    "'version', 'ants@' || g || '@fp32', 'role', 'stable', 'share', 10000))), "
    "timestamptz '2026-01-01Z' + make_interval(mins => g) "
    f"FROM deployments d, generate_series(1, {GENERATIONS}) AS g",
    "INSERT INTO rollbacks (id, deployment_id, generation, asked_at, asked_by, reason, automatic, from_arms, "
    "to_arm, notes) SELECT 'rbk_' || deployment_id || '_' || generation, deployment_id, generation, "
    f"created_at, 'ben', 'errors', false, '[]', '{ARM}', '[]' FROM routes WHERE cause = 'roll_back'",
    "INSERT INTO nodes (id, name, environment, targets, labels, hardware, address, draining, "
    "incarnation_changes, seq) SELECT 'nod_' || n, 'n' || n, 'prod', '[]', '{}', '{}', '', false, 0, 0 "
    f"FROM generate_series(1, {NODES}) AS n",
    "INSERT INTO applied (node_id, deployment_id, timeline, generation, switched_at) "
    "SELECT n.id, r.deployment_id, 1, r.generation, r.created_at + interval '1 s' FROM nodes n, routes r "
    f"JOIN deployments d ON d.id = r.deployment_id AND d.environment = 'prod' WHERE n.id <> 'nod_1' OR "
    f"r.generation < {GENERATIONS}",
    "ANALYZE",
)


@pytest.fixture
async def history(registry: Registry) -> Registry:
    url = registry.settings.database_url.get_secret_value()
    async with await psycopg.AsyncConnection.connect(url, autocommit=True) as connection:
        for statement in HISTORY:
            await connection.execute(statement)  # type: ignore[arg-type]
    return registry


async def at(registry: Registry, moment: datetime, environment: str = "prod") -> tuple[Serving, ...]:
    return (await registry.client(audit.serving(environment, moment))).items


async def test_what_served_when(history: Registry) -> None:
    found = await at(history, START + timedelta(minutes=123, seconds=30))
    assert [each.deployment for each in found] == [f"prod/d{n:02}" for n in range(2, DEPLOYMENTS + 1, 2)]
    first = found[0]
    assert (first.generation, first.since) == (123, START + timedelta(minutes=123))
    assert (first.cause, first.actor, first.reason, first.rollback) == ("step", "ana", "why 123", None)
    assert [(arm.version, arm.share) for arm in first.arms] == [("ants@123@fp32", 10_000)]
    assert [node.generation for node in first.nodes] == [123] * NODES
    # To the moment: the route is in force at its very instant, and nodes a second later.
    then = await at(history, START + timedelta(minutes=124))
    assert then[0].generation == 124
    assert {node.generation for node in then[0].nodes} == {123}


async def test_a_rollback_names_its_receipt_and_who_had_not_followed(history: Registry) -> None:
    last = (await at(history, START + timedelta(days=30)))[0]
    assert last.generation == GENERATIONS
    assert last.rollback is not None
    assert (last.rollback.id, last.rollback.asked_by) == (f"rbk_dep_2_{GENERATIONS}", "ben")
    behind = {node.name: node.generation for node in last.nodes if node.generation != GENERATIONS}
    assert behind == {"n1": GENERATIONS - 1}, "this one served the earlier generation still"


async def test_before_everything_and_elsewhere_there_is_nothing(history: Registry) -> None:
    assert await at(history, START) == ()
    assert await at(history, datetime.now(UTC), "nowhere") == ()
    with pytest.raises(ApiError, match="`at` has no time zone"):
        await at(history, START.replace(tzinfo=None))


async def test_pages_and_scopes(history: Registry) -> None:
    moment = START + timedelta(minutes=10)
    first = await history.client(audit.serving("prod", moment, limit=3))
    second = await history.client(audit.serving("prod", moment, first.next_page_token, limit=100))
    names = [each.deployment for each in (*first.items, *second.items)]
    assert names == [each.deployment for each in await at(history, moment)]
    assert second.next_page_token is None
    limited = await history.as_role(Role.VIEWER, models=("ants",), environments=("prod",))
    seen = (await limited(audit.serving("prod", moment))).items
    assert seen and {each.model for each in seen} == {"ants"}
    with pytest.raises(ApiError) as refused:
        await limited(audit.serving("qa", moment))
    assert refused.value.status == 403


async def test_the_plan_probes_indexes(history: Registry) -> None:
    """One deployment costs one probe of its routes and one per node, whatever the length of the history."""
    compiled = str(text(SERVING).compile(dialect=postgresql.dialect(paramstyle="pyformat")))
    values = {
        "environment": "prod",
        "at": START + timedelta(minutes=30),
        "after": "",
        "models": [],
        "limit": 101,
    }
    url = history.settings.database_url.get_secret_value()
    async with await psycopg.AsyncConnection.connect(url) as connection:
        cursor = await connection.execute(f"EXPLAIN (ANALYZE, FORMAT JSON) {compiled}", values)  # type: ignore[arg-type]
        (plan,) = await cursor.fetchone() or ()
    scans = list(scanned(plan[0]["Plan"]))
    names = {scan.get("Index Name") for scan in scans if scan["Relation Name"] in ("routes", "applied")}
    assert names == {"ix_routes_deployment_id_created_at_generation", "pk_applied"}
    for scan in scans:
        if scan["Relation Name"] in ("routes", "applied"):
            assert scan["Actual Rows"] <= 1 and scan.get("Rows Removed by Filter", 0) <= 1, scan


def scanned(plan: dict[str, Any]) -> list[dict[str, Any]]:
    """All parts of a plan that read a table."""
    below = [scan for part in plan.get("Plans", ()) for scan in scanned(part)]
    return ([plan] if "Relation Name" in plan else []) + below
