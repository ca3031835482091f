"""slipway backup DIR, slipway restore DIR."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import typer

from slipway import backup
from slipway.cli.output import Column, Form, Output, hint, one
from slipway.stack import DataDirectoryInUse, Stack, StackAddresses, StackError, default_data_dir
from slipway.stack.addresses import DEFAULT_BUCKET
from slipway.stack.external import database_address
from slipway.stack.running import running_addresses
from slipway.up import migrate

COLUMNS: list[Column[backup.Manifest]] = [
    ("REGISTRY", lambda m: m.registry_id),
    ("MADE", lambda m: f"{m.made_at:%Y-%m-%d %H:%M:%S}Z"),
    ("TIMELINE", lambda m: m.timeline),
    ("SCHEMA", lambda m: m.revision),
    ("BLOBS", lambda m: len(m.blobs)),
    ("BYTES", lambda m: m.bytes),
]


def install(app: typer.Typer) -> None:
    app.command("backup")(take)
    app.command("restore")(restore)


def take(directory: Path, output: Output = Form.TABLE) -> None:
    """Copy the database and every blob to DIRECTORY, while the registry works; again: only what is new.

    DATABASE_URL and S3_ENDPOINT_URL (with its keys) name the servers; without them it is the service of
    `slipway up` in this directory.
    """
    with _servers(must_exist=True) as addresses:
        one(backup.take(directory, addresses, hint), COLUMNS, output)


def restore(directory: Path, output: Output = Form.TABLE) -> None:
    """Bring the registry in DIRECTORY back, into an empty database: identical, on a higher timeline.

    Every registry process must be stopped. It names its servers as `slipway backup` does.
    """
    with _servers(must_exist=False) as addresses:
        made = backup.restore(directory, addresses, hint)
        migrate(addresses)
        hint("restored; start the registry: nodes and workers find it again by themselves")
        one(made, COLUMNS, output)


@contextmanager
def _servers(*, must_exist: bool) -> Iterator[StackAddresses]:
    """Database and object store: those that the environment names, or those of `slipway up` here, which are
    started where they do not run."""
    database_url = database_address(os.environ)
    if database_url:
        yield _named(database_url)
        return
    data_dir = default_data_dir()
    if must_exist and not data_dir.exists():
        raise StackError(
            f"no service here: {data_dir} does not exist. Go to the directory of `slipway up`, or set "
            "DATABASE_URL and S3_ENDPOINT_URL."
        )
    stack = Stack(data_dir)
    try:
        addresses = stack.start()
    except DataDirectoryInUse:
        yield running_addresses(data_dir, os.environ)
        return
    try:
        yield addresses
    finally:
        stack.stop()


def _named(database_url: str) -> StackAddresses:
    missing = [name for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY") if not os.environ.get(name)]
    if missing:
        raise StackError(
            f"DATABASE_URL is set, but not {' and '.join(missing)}: a backup needs the bytes too. "
            "Set what the registry itself is started with."
        )
    return StackAddresses(
        database_url=database_url,
        redis_url=os.environ.get("REDIS_URL", ""),
        s3_endpoint_url=os.environ.get("S3_ENDPOINT_URL", ""),
        s3_access_key=os.environ["AWS_ACCESS_KEY_ID"],
        s3_secret_key=os.environ["AWS_SECRET_ACCESS_KEY"],
        bucket=os.environ.get("SLIPWAY_S3_BUCKET") or DEFAULT_BUCKET,
    )
