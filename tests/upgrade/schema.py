"""A database's tables as old code sees them: columns with types, what must be given, and rules on writes."""

import json
from pathlib import Path
from typing import Any

import psycopg

Schema = dict[str, dict[str, Any]]

_COLUMNS = """
SELECT table_name, column_name, udt_name, is_nullable = 'NO' AND column_default IS NULL AND is_identity = 'NO'
FROM information_schema.columns WHERE table_schema = 'public' AND table_name <> 'alembic_version'
ORDER BY table_name, ordinal_position
"""
_RULES = """
SELECT conrelid::regclass::text, pg_get_constraintdef(c.oid), array_agg(attname)
FROM pg_constraint c JOIN pg_attribute ON attrelid = conrelid AND attnum = ANY(conkey)
WHERE connamespace = 'public'::regnamespace AND contype IN ('p', 'u', 'c', 'f') GROUP BY c.oid
UNION
SELECT indrelid::regclass::text, regexp_replace(pg_get_indexdef(indexrelid), '^.* USING ', 'UNIQUE INDEX '),
    array_agg(attname)
FROM pg_index JOIN pg_class t ON t.oid = indrelid
    JOIN pg_attribute ON attrelid = indrelid AND attnum = ANY(indkey)
WHERE relnamespace = 'public'::regnamespace AND indisunique GROUP BY indexrelid, indrelid
"""


def of(connection: psycopg.Connection) -> Schema:
    """By table: `columns` (type; and whether an INSERT must name it), and `rules` that a write can break,
    with the columns that they are about."""
    found: Schema = {}
    for table, column, kind, needed in connection.execute(_COLUMNS):
        columns = found.setdefault(table, {"columns": {}, "rules": {}})["columns"]
        columns[column] = {"type": kind, "needed": needed}
    for table, rule, columns in connection.execute(_RULES):
        if table in found:
            found[table]["rules"][rule] = sorted(columns)
    return found


def write(path: Path, schema: Schema) -> None:
    path.write_text(json.dumps(schema, indent=1, sort_keys=True) + "\n")


def read(path: Path) -> Schema:
    made: Schema = json.loads(path.read_text())
    return made
