"""Records what the registry says to its database, as a pytest plugin: see `record.py`.

`pytest -p tests.upgrade.statements --statements FILE tests/registry` writes every distinct statement.
"""

import re
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import event
from sqlalchemy.engine import Engine

_KEPT = re.compile(r"^\s*(SELECT|INSERT|UPDATE|DELETE|WITH)\b", re.IGNORECASE)
_NOT_OURS = re.compile(r"pg_catalog|alembic_version|pg_advisory_(un)?lock\(|information_schema")
# An IN list or a batch of rows has as many members as a call had values: one is enough.
_MORE_IN_LIST = re.compile(r"( IN \(%\((\w+?)_1\)s(?:::[A-Z]+)?)(?:, %\(\2_\d+\)s(?:::[A-Z]+)?)+")
# The driver tells these types by the value; here there is none.
_INTERVAL = re.compile(r"((?:now|clock_timestamp)\(\) [-+] %\(\w+\)s)(?!::)")
_ROW = r"\((?:%\(\w+__{}\)s[^()]*(?:\(\d+\))?(?:, )?)+\)"
_MORE_ROWS = re.compile(f"({_ROW.format('0')})(?:, {_ROW.format('[0-9]+')})+")


def normal(statement: str) -> str:
    """One line, one member per list."""
    flat = " ".join(statement.split())
    return _INTERVAL.sub(r"\1::INTERVAL", _MORE_ROWS.sub(r"\1", _MORE_IN_LIST.sub(r"\1", flat)))


def is_ours(statement: str) -> bool:
    return bool(_KEPT.match(statement)) and not _NOT_OURS.search(statement)


class Heard:
    """Distinct statements, in no order."""

    def __init__(self) -> None:
        self.statements: set[str] = set()
        event.listen(Engine, "before_cursor_execute", self._hear)

    def _hear(self, _connection: Any, _cursor: Any, statement: str, *_: Any) -> None:
        if is_ours(statement):
            self.statements.add(normal(statement))

    def write(self, path: Path) -> None:
        path.write_text("".join(f"{each}\n" for each in sorted(self.statements)))


_HEARD = Heard()
_TO: list[Path] = []


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--statements", type=Path, help="where distinct statements are written")


def pytest_configure(config: pytest.Config) -> None:
    path = config.getoption("--statements")
    if path is not None:
        _TO.append(path)


def pytest_runtest_logfinish() -> None:
    """After every test: a run that is cut short has recorded what it did."""
    if _TO:
        _HEARD.write(_TO[0])
