"""The trail as a file: whole, in order, the same as the list, and in memory only a piece at a time."""

import asyncio
import csv
import io
import os
import subprocess
import sys
from pathlib import Path

import orjson
import pytest

from registry.client import ApiError, access, audit, models
from registry.contract.audit import AuditEntry, ExportForm
from registry.contract.tokens import Role
from registry.contract.versions import ModelCreate
from tests.registry.conftest import ADMIN, Registry
from tests.registry.support import run_sql

MANY = 2_500


async def many(registry: Registry) -> None:
    """More than two batches, with what is awkward in a table."""
    await run_sql(
        registry,
        "INSERT INTO audit (actor, action, subject, before, after, reason, via) "
        "SELECT '=cmd()', 'model.patch', 'model:m' || n, NULL, jsonb_build_object('n', n), "
        "'line one' || chr(10) || '\"quoted\", and more', 'API' FROM generate_series(1, %s) AS n",
        MANY,
    )


async def exported(registry: Registry, form: ExportForm, **wishes: str) -> list[bytes]:
    return [piece async for piece in registry.client.pieces(audit.export(form, **wishes))]  # type: ignore[arg-type]


async def test_lines_are_the_lists_entries_oldest_first(registry: Registry) -> None:
    await many(registry)
    content = b"".join(await exported(registry, ExportForm.JSONL))
    entries = [AuditEntry.model_validate(orjson.loads(line)) for line in content.splitlines()]
    assert [entry.id for entry in entries] == sorted(entry.id for entry in entries)
    listed = await registry.client(access.audit(limit=1000))
    assert entries[-1000:] == list(reversed(listed.items))
    assert len([entry for entry in entries if entry.action == "model.patch"]) == MANY


async def test_a_table_holds_the_same_and_runs_nothing(registry: Registry) -> None:
    await many(registry)
    content = b"".join(await exported(registry, ExportForm.CSV, action="model.patch")).decode()
    head, *rows = list(csv.reader(io.StringIO(content)))
    assert head[:5] == ["id", "at", "actor", "action", "subject"] and len(rows) == MANY
    first = dict(zip(head, rows[0], strict=True))
    assert first["actor"] == "'=cmd()", "a spreadsheet must not take it for a formula"
    assert first["reason"] == 'line one\n"quoted", and more'
    assert (first["before"], orjson.loads(first["after"])) == ("", {"n": 1})


async def test_filters_narrow_the_file(registry: Registry) -> None:
    publisher = await registry.as_role(Role.PUBLISHER)
    await publisher(models.create(ModelCreate(name="ants")))
    await registry.client(models.create(ModelCreate(name="bees")))
    (line,) = b"".join(await exported(registry, ExportForm.JSONL, actor="publisher")).splitlines()
    assert orjson.loads(line)["subject"] == "model:ants"
    assert b"".join(await exported(registry, ExportForm.JSONL, subject="none:")) == b""


async def test_a_limited_token_exports_its_scope(registry: Registry) -> None:
    for name in ("ants", "bees"):
        await registry.client(models.create(ModelCreate(name=name)))
    limited = await registry.as_role(Role.VIEWER, models=("ants",))
    content = b"".join([piece async for piece in limited.pieces(audit.export())])
    assert [orjson.loads(line)["subject"] for line in content.splitlines()] == ["model:ants"]


async def test_who_may_not_is_told_so(registry: Registry) -> None:
    builder = await registry.as_role(Role.BUILDER)
    with pytest.raises(ApiError, match="this needs viewer") as refused:
        async for _ in builder.pieces(audit.export()):
            raise AssertionError("nothing is sent")
    assert refused.value.status == 403


async def test_the_command_line_writes_a_file(registry: Registry, tmp_path: Path) -> None:
    await registry.client(models.create(ModelCreate(name="ants")))
    file = tmp_path / "audit.csv"
    environ = {**os.environ, "SLIPWAY_URL": registry.url, "SLIPWAY_TOKEN": ADMIN}

    async def slipway(*arguments: str) -> str:
        command = [sys.executable, "-c", "from slipway.cli import main; main()", *arguments]
        done = await asyncio.to_thread(
            subprocess.run, command, env=environ, capture_output=True, text=True, timeout=120, check=False
        )
        assert done.returncode == 0, done.stderr
        return done.stdout

    assert await slipway("audit", "export", "--format", "csv", "--to", str(file), "--action", "model.") == ""
    assert len(list(csv.reader(io.StringIO(file.read_text())))) == 2
    listed = await slipway("audit", "list", "--action", "model.create", "-o", "jsonl")
    assert orjson.loads(listed)["subject"] == "model:ants"
    assert await slipway("audit", "serving", "prod", "--at", "2026-01-01T00:00:00Z", "-o", "json") == "[]\n"
