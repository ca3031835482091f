"""Shared fixtures: one real stack for the session; a fresh database, broker and bucket for each test."""

import os
import shutil
import tempfile
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from uuid import uuid4

import boto3
import psycopg
import pytest
import redis
from botocore.config import Config
from hypothesis import settings
from mypy_boto3_s3 import S3Client
from psycopg import sql

from registry import migrate
from slipway.stack import Stack, StackAddresses

_LOOPBACK = "127.0.0.0/8,::1,localhost"
_TEMPLATE = "template_slipway"
# The tests make and drop databases, so they never use a server that the environment names.
_PASSED_ON = ("PATH", "SLIPWAY_POSTGRES_BIN", "SLIPWAY_VALKEY_SERVER", "SLIPWAY_WEED")


# A busy machine must not fail a test: how long an example takes is for benchmarks. Nor must luck: the same
# tree gets the same examples, and `./run test --hypothesis-profile=random` looks for others.
settings.register_profile("slipway", deadline=None, derandomize=True)
settings.register_profile("random", deadline=None)
settings.load_profile("slipway")


def pytest_configure(config: pytest.Config) -> None:
    config.option.allow_hosts = _LOOPBACK
    config.option.allow_unix_socket = True


@pytest.fixture(scope="session")
def stack() -> Iterator[Stack]:
    """Real PostgreSQL, Valkey and SeaweedFS, shared by all tests: never kill its servers (start your own)."""
    # Not pytest's own temporary directory: under root that is closed to the user who runs PostgreSQL.
    root = Path(tempfile.mkdtemp(prefix="slipway-tests-"))
    root.chmod(0o711)
    environ = {name: os.environ[name] for name in _PASSED_ON if name in os.environ}
    stack = Stack(root / "data", throwaway=True, environ=environ)
    try:
        with stack.running():
            yield stack
    finally:
        shutil.rmtree(root)


@pytest.fixture(scope="session")
def _admin(stack: Stack) -> Iterator[psycopg.Connection]:
    with psycopg.connect(address(stack.addresses, "postgres"), autocommit=True) as connection:
        yield connection


@pytest.fixture(scope="session")
def _template(stack: Stack, _admin: psycopg.Connection) -> str:
    _admin.execute(sql.SQL("CREATE DATABASE {}").format(sql.Identifier(_TEMPLATE)))
    migrate.upgrade(address(stack.addresses, _TEMPLATE))
    return _TEMPLATE


@pytest.fixture
def empty_database_url(stack: Stack, _admin: psycopg.Connection) -> Iterator[str]:
    """The address of a database of this test's own without any table."""
    yield from fresh_database(stack.addresses, _admin, "template1")


@pytest.fixture
def database_url(stack: Stack, _admin: psycopg.Connection, _template: str) -> Iterator[str]:
    """The address (`postgresql://…`) of a migrated database of this test's own."""
    yield from fresh_database(stack.addresses, _admin, _template)


@pytest.fixture
def redis_url(stack: Stack) -> str:
    """The address of the broker, emptied."""
    with redis.Redis.from_url(stack.addresses.redis_url) as client:
        client.flushall()
    return stack.addresses.redis_url


@pytest.fixture(scope="session")
def s3(stack: Stack) -> Iterator[S3Client]:
    """A client of the object store."""
    at = stack.addresses
    client = boto3.client(
        "s3",
        endpoint_url=at.s3_endpoint_url,
        aws_access_key_id=at.s3_access_key,
        aws_secret_access_key=at.s3_secret_key,
        region_name="us-east-1",
        config=Config(s3={"addressing_style": "path"}),
    )
    yield client
    client.close()


@pytest.fixture
def bucket(stack: Stack, s3: S3Client) -> str:
    """The name of the bucket, emptied (making one takes the server ten times as long)."""
    name = stack.addresses.bucket
    for page in s3.get_paginator("list_objects_v2").paginate(Bucket=name):
        found = [{"Key": item["Key"]} for item in page.get("Contents", ()) if "Key" in item]
        if found:
            s3.delete_objects(Bucket=name, Delete={"Objects": found})  # type: ignore[typeddict-item]
    return name


@pytest.fixture
def addresses(stack: Stack, database_url: str, redis_url: str, bucket: str) -> StackAddresses:
    """All of this test's own servers at once; `.environment()` is for processes that the test starts."""
    return replace(stack.addresses, database_url=database_url, redis_url=redis_url, bucket=bucket)


def address(addresses: StackAddresses, database: str) -> str:
    """Of another database on the stack's server."""
    return f"{addresses.database_url.rpartition('/')[0]}/{database}"


def fresh_database(addresses: StackAddresses, admin: psycopg.Connection, template: str) -> Iterator[str]:
    """A copy of a template, dropped afterwards; gives its address."""
    name = f"test_{uuid4().hex[:16]}"
    admin.execute(
        sql.SQL("CREATE DATABASE {} TEMPLATE {} STRATEGY file_copy").format(
            sql.Identifier(name), sql.Identifier(template)
        )
    )
    yield address(addresses, name)
    admin.execute(sql.SQL("DROP DATABASE {} WITH (FORCE)").format(sql.Identifier(name)))
