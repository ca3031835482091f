"""The audit trail as a file, however long it is: read in batches, none of which outlives its lines.

No connection is held while a slow reader reads. Entries are never changed, so the batches of one export
fit together; those that are written meanwhile are for the next one.
"""

import csv
import io
from collections.abc import AsyncIterator, Sequence
from typing import assert_never

import orjson

from registry.audit import repository
from registry.audit.filters import Filter
from registry.audit.service import represent
from registry.contract.audit import AuditEntry, ExportForm
from registry.database import Database
from registry.edge.principal import Principal

BATCH = 1_000
COLUMNS = ("id", "at", "actor", "action", "subject", "reason", "via", "request_id", "before", "after")
# A spreadsheet runs a cell that begins with one of these.
_FORMULA = ("=", "+", "-", "@", "\t", "\r")


async def lines(
    database: Database, upto: int, form: ExportForm, wanted: Filter, caller: Principal
) -> AsyncIterator[bytes]:
    """Oldest first, in pieces of whole lines; entries up to the id `upto`."""
    above = 0
    if form is ExportForm.CSV:
        yield _csv([COLUMNS])
    while True:
        async with database.session() as session:
            rows = await repository.batch(session, above, upto, BATCH, wanted, caller)
        if rows:
            yield _written([represent(row) for row in rows], form)
            above = rows[-1].id
        if len(rows) < BATCH:
            return


def _written(entries: Sequence[AuditEntry], form: ExportForm) -> bytes:
    match form:
        case ExportForm.JSONL:
            return b"".join(orjson.dumps(entry.model_dump(mode="json")) + b"\n" for entry in entries)
        case ExportForm.CSV:
            return _csv([[_cell(value) for value in _values(entry)] for entry in entries])
        case _:
            assert_never(form)


def _values(entry: AuditEntry) -> list[object]:
    plain = entry.model_dump(mode="json")
    return [plain[column] for column in COLUMNS]


def _cell(value: object) -> str:
    if value is None:
        return ""
    shown = value if isinstance(value, str) else orjson.dumps(value).decode()
    return f"'{shown}" if shown.startswith(_FORMULA) else shown


def _csv(table: Sequence[Sequence[str]]) -> bytes:
    text = io.StringIO()
    csv.writer(text).writerows(table)
    return text.getvalue().encode()
