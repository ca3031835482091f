"""Servers that the environment names replace the embedded ones."""

from pathlib import Path

import pytest

from slipway.stack import Stack, StackError


def test_with_all_three_named_nothing_is_started_and_no_directory_is_made(
    stack: Stack, tmp_path: Path
) -> None:
    ours = Stack(tmp_path / "data", environ=stack.addresses.environment())
    with ours.running() as at:
        assert at == stack.addresses
        assert ours.names == ()
    assert not (tmp_path / "data").exists()


@pytest.mark.parametrize(
    ("variable", "replaced"),
    [("DATABASE_URL", "postgres"), ("REDIS_URL", "valkey"), ("S3_ENDPOINT_URL", "seaweed")],
)
def test_each_variable_replaces_one_server(
    stack: Stack, open_dir: Path, plain: dict[str, str], variable: str, replaced: str
) -> None:
    given = stack.addresses.environment()
    names = [variable] + [name for name in given if name.startswith("AWS_") and replaced == "seaweed"]
    ours = Stack(open_dir / "data", throwaway=True, environ=plain | {name: given[name] for name in names})
    with ours.running() as at:
        assert sorted((*ours.names, replaced)) == ["postgres", "seaweed", "valkey"]
        assert at.environment()[variable] == given[variable]


def test_an_s3_server_without_its_keys_is_refused(tmp_path: Path) -> None:
    environ = {"S3_ENDPOINT_URL": "http://127.0.0.1:1", "AWS_ACCESS_KEY_ID": "key"}
    with pytest.raises(StackError, match="AWS_SECRET_ACCESS_KEY"):
        Stack(tmp_path / "data", environ=environ).start()


def test_sqlalchemys_form_of_a_database_address_is_understood(stack: Stack, tmp_path: Path) -> None:
    environ = stack.addresses.environment()
    environ["DATABASE_URL"] = environ["DATABASE_URL"].replace("postgresql://", "postgresql+psycopg://")
    with Stack(tmp_path / "data", environ=environ).running() as at:
        assert at.database_url == environ["DATABASE_URL"]


def test_the_printed_addresses_hold_no_secret(stack: Stack) -> None:
    at = stack.addresses
    password = at.database_url.split(":")[2].partition("@")[0]
    assert len(password) > 20
    assert password not in repr(at)
    assert at.s3_secret_key not in repr(at)


@pytest.mark.parametrize(
    ("variable", "value", "says"),
    [
        (
            "DATABASE_URL",
            "postgres//ann:SECRETPW@127.0.0.1/x",
            r"DATABASE_URL=\*\*\*@127.0.0.1/x is not an address",
        ),
        ("DATABASE_URL", "mysql://ann:SECRETPW@127.0.0.1/x", "must begin with postgresql://"),
        ("REDIS_URL", "http://:SECRETPW@127.0.0.1", "must begin with redis://"),
        ("S3_ENDPOINT_URL", "ann:SECRETPW@127.0.0.1", "is not an address"),
    ],
)
def test_a_wrong_address_is_named_without_its_password(
    tmp_path: Path, variable: str, value: str, says: str
) -> None:
    """At once: it is not waited for, and nothing is started beside it."""
    environ = {variable: value, "AWS_ACCESS_KEY_ID": "key", "AWS_SECRET_ACCESS_KEY": "secret"}
    with pytest.raises(StackError, match=says) as told:
        Stack(tmp_path / "data", environ=environ).start()
    assert "SECRETPW" not in str(told.value)
    assert not (tmp_path / "data").exists()
