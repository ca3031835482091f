"""The data directory under root, where PostgreSQL runs as another user."""

import os
from pathlib import Path

import pytest

from slipway.stack import DataDirectoryUnreachable, Stack, StackError, default_data_dir
from slipway.stack.account import first_closed_directory, server_account
from slipway.stack.binaries import postgres_install

as_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root starts PostgreSQL as another user")


def test_an_ordinary_user_runs_postgresql_as_himself_and_root_as_another() -> None:
    account = server_account()
    assert (account is None) == (os.geteuid() != 0)
    assert account is None or account.uid != 0


@as_root
def test_a_directory_out_of_reach_is_refused_with_the_way_out(open_dir: Path, plain: dict[str, str]) -> None:
    private = open_dir / "private home"
    private.mkdir(mode=0o700)

    with pytest.raises(DataDirectoryUnreachable, match=f"chmod o\\+x '{private}'"):
        Stack(private / "data", environ=plain).start()
    assert private.stat().st_mode & 0o777 == 0o700


@as_root
def test_the_topmost_closed_directory_is_found(open_dir: Path) -> None:
    account = server_account()
    assert account is not None
    (open_dir / "a" / "b").mkdir(parents=True)
    assert first_closed_directory(account, open_dir / "a" / "b") is None
    (open_dir / "a").chmod(0o700)
    assert first_closed_directory(account, open_dir / "a" / "b") == open_dir / "a"


@as_root
def test_only_postgresqls_part_changes_its_owner_and_a_strict_umask_is_no_obstacle(
    open_dir: Path, database_only: dict[str, str]
) -> None:
    before = os.umask(0o077)
    try:
        with Stack(open_dir / "made" / "data", environ=database_only, throwaway=True).running():
            pass
    finally:
        os.umask(before)
    account = server_account()
    assert account is not None
    owners = {path.name: path.stat().st_uid for path in (open_dir / "made" / "data").iterdir()}
    assert owners.pop("postgres") == account.uid
    assert set(owners.values()) == {0}


@as_root
def test_binaries_out_of_reach_are_copied_beside_the_data_once(
    open_dir: Path, database_only: dict[str, str]
) -> None:
    """As with a virtual environment in a home of mode 0700."""
    source = postgres_install({})
    private = open_dir / "home"
    private.mkdir(mode=0o700)
    (private / "pg").symlink_to(source)
    environ = database_only | {"SLIPWAY_POSTGRES_BIN": str(private / "pg" / "bin")}

    for _ in range(2):
        with Stack(open_dir / "data", environ=environ, throwaway=True).running():
            pass
        assert len(list((open_dir / "data").glob("postgres-binaries-*"))) == 1
    assert not list((open_dir / "data").glob(".postgres-binaries-*"))


@as_root
def test_a_data_directory_of_another_user_is_refused(open_dir: Path, plain: dict[str, str]) -> None:
    data = open_dir / "data"
    data.mkdir()
    (data / "launcher.lock").touch()
    os.chown(data / "launcher.lock", 12345, 12345)

    with pytest.raises(StackError, match="belongs to uid 12345"):
        Stack(data, environ=plain).start()


def test_a_file_in_the_place_of_the_data_directory_is_named(open_dir: Path, plain: dict[str, str]) -> None:
    (open_dir / "data").touch()
    with pytest.raises(StackError, match="is a file"):
        Stack(open_dir / "data", environ=plain).start()


def test_the_default_is_in_the_working_directory_and_can_be_set(
    open_dir: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(open_dir)
    assert default_data_dir({}) == open_dir / ".slipway" / "data"
    assert default_data_dir({"SLIPWAY_DATA_DIR": "elsewhere"}) == open_dir / "elsewhere"


@as_root
def test_the_default_of_a_checkout_in_a_private_home_is_outside_it(
    open_dir: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    open_dir.chmod(0o700)
    monkeypatch.chdir(open_dir)
    chosen = default_data_dir({})
    assert chosen.parents[1] == Path("/var/lib/slipway")
    assert chosen == default_data_dir({})
