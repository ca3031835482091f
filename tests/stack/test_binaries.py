from collections.abc import Callable, Mapping
from pathlib import Path

import psycopg
import pytest

from slipway.stack import Stack, StackError, binaries

_SYSTEM_15 = Path("/usr/lib/postgresql/15/bin")


def test_the_wheels_are_found() -> None:
    assert (binaries.postgres_install({}) / "bin" / "initdb").is_file()
    assert binaries.valkey_server({}).is_file()
    assert binaries.weed({}).is_file()


@pytest.mark.parametrize(
    ("find", "variable"),
    [
        (binaries.postgres_install, "SLIPWAY_POSTGRES_BIN"),
        (binaries.valkey_server, "SLIPWAY_VALKEY_SERVER"),
        (binaries.weed, "SLIPWAY_WEED"),
    ],
)
def test_a_variable_that_names_nothing_is_refused_by_name(
    find: Callable[[Mapping[str, str]], Path], variable: str, tmp_path: Path
) -> None:
    with pytest.raises(StackError, match=variable):
        find({variable: str(tmp_path / "missing")})


@pytest.mark.skipif(not _SYSTEM_15.is_dir(), reason="PostgreSQL 15 is not installed")
def test_the_oldest_supported_postgresql_works_too(open_dir: Path, database_only: dict[str, str]) -> None:
    environ = database_only | {"SLIPWAY_POSTGRES_BIN": str(_SYSTEM_15)}
    with (
        Stack(open_dir / "data", environ=environ, throwaway=True).running() as at,
        psycopg.connect(at.database_url) as database,
    ):
        assert database.info.server_version // 10_000 == 15
