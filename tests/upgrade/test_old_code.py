"""An earlier state's code on this schema: while one process after another is replaced, both run."""

import re
from pathlib import Path

import psycopg
import pytest

from tests.upgrade import schema

RECORDED = Path(__file__).parent / "recorded"
STATES = sorted(path.name for path in RECORDED.iterdir() if path.is_dir())
_PLACE = re.compile(r"%\((\w+)\)s")


def _prepared(statement: str) -> str:
    """Placeholders as the server numbers them; the driver's doubled percent signs are one."""
    order: dict[str, int] = {}
    numbered = _PLACE.sub(lambda found: f"${order.setdefault(found[1], len(order) + 1)}", statement)
    return numbered.replace("%%", "%")


@pytest.mark.parametrize("state", STATES)
def test_every_statement_of_old_code_is_understood(database_url: str, state: str) -> None:
    """Parsed, and every table, column, function and type found: what a rename or a drop would break."""
    faults = []
    with psycopg.connect(database_url, autocommit=True, prepare_threshold=None) as connection:
        statements = (RECORDED / state / "statements.txt").read_text().splitlines()
        for number, statement in enumerate(statements):
            try:
                connection.execute(f"PREPARE s{number} AS {_prepared(statement)}".encode())
            except psycopg.Error as error:
                faults.append(f"{error.diag.message_primary}: {statement[:300]}")
    assert len(statements) > 100, "the recording is whole"
    assert faults == []


@pytest.mark.parametrize("state", STATES)
def test_old_code_may_leave_out_what_it_does_not_know(database_url: str, state: str) -> None:
    """Old columns keep their types; new ones need not be named by an INSERT; rules only become fewer."""
    then = schema.read(RECORDED / state / "schema.json")
    with psycopg.connect(database_url) as connection:
        now = schema.of(connection)
    faults = []
    for table, was in then.items():
        found = now.get(table, {"columns": {}, "rules": {}})
        for name, column in was["columns"].items():
            kind = found["columns"].get(name, {}).get("type")
            if kind != column["type"]:
                faults.append(f"{table}.{name} was {column['type']}, is {kind}")
        faults += [
            f"{table}.{name}: an INSERT that does not name it fails"
            for name, column in found["columns"].items()
            if column["needed"] and not was["columns"].get(name, {}).get("needed")
        ]
        # A rule on new columns alone is kept by leaving them out.
        faults += [
            f"{table}: a new rule, {rule}"
            for rule, columns in found["rules"].items()
            if rule not in was["rules"] and not was["columns"].keys().isdisjoint(columns)
        ]
    assert faults == []
