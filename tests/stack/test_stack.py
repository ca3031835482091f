"""The whole stack with real servers in directories of its own."""

import json
import os
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

import boto3
import psycopg
import pytest
import redis
from botocore.config import Config
from mypy_boto3_s3 import S3Client

from slipway.stack import DataDirectoryInUse, Stack, StackAddresses, StackError
from slipway.stack.identity import ProcessIdentity

Answer = TypeVar("Answer")
_SERVERS = ("postgres", "valkey", "seaweed")
_RUN = """
import dataclasses, json, sys, time
from pathlib import Path
from slipway.stack import Stack

stack = Stack(Path(sys.argv[1]), environ={})
addresses = dataclasses.asdict(stack.start())
print(json.dumps({"addresses": addresses, "pids": [stack.pid(name) for name in stack.names]}), flush=True)
time.sleep(120)
"""


def _put(at: StackAddresses, value: str) -> None:
    """Writes `value` to all three servers; when it returns, all have acknowledged it."""
    with psycopg.connect(at.database_url) as database:
        database.execute("CREATE TABLE IF NOT EXISTS evidence (value text)")
        database.execute("INSERT INTO evidence VALUES (%s)", [value])
    with redis.Redis.from_url(at.redis_url) as broker:
        broker.rpush("evidence", value)
    _on_s3(at, lambda s3: s3.put_object(Bucket=at.bucket, Key=value, Body=value.encode()))


def _has(at: StackAddresses, value: str) -> list[bool]:
    with psycopg.connect(at.database_url) as database:
        row = database.execute("SELECT count(*) FROM evidence WHERE value = %s", [value]).fetchone()
    with redis.Redis.from_url(at.redis_url) as broker:
        kept = broker.lrange("evidence", 0, -1)
    body = _on_s3(at, lambda s3: s3.get_object(Bucket=at.bucket, Key=value)["Body"].read())
    return [row == (1,), value.encode() in kept, body == value.encode()]


def _on_s3(at: StackAddresses, use: Callable[[S3Client], Answer]) -> Answer:
    s3 = boto3.client(
        "s3",
        endpoint_url=at.s3_endpoint_url,
        aws_access_key_id=at.s3_access_key,
        aws_secret_access_key=at.s3_secret_key,
        region_name="us-east-1",
        config=Config(s3={"addressing_style": "path"}),
    )
    try:
        return use(s3)
    finally:
        s3.close()


def test_a_second_start_has_the_data_the_ports_and_the_secrets_of_the_first(
    open_dir: Path, plain: dict[str, str]
) -> None:
    stack = Stack(open_dir / "data", environ=plain)
    with stack.running() as first:
        _put(first, "kept")
        pids = [stack.pid(name) for name in stack.names]
    assert [ProcessIdentity.of(pid) for pid in pids] == [None, None, None]

    with Stack(open_dir / "data", environ=plain).running() as second:
        assert second == first
        assert _has(second, "kept") == [True, True, True]


def test_ports_taken_meanwhile_are_replaced_and_the_data_stays(open_dir: Path, plain: dict[str, str]) -> None:
    with Stack(open_dir / "data", environ=plain).running() as first:
        _put(first, "kept")
    ports = [int(url.rpartition(":")[2].partition("/")[0]) for url in _urls(first)]
    holders = [socket.create_server(("127.0.0.1", port)) for port in ports]
    try:
        with Stack(open_dir / "data", environ=plain).running() as second:
            assert not set(_urls(second)) & set(_urls(first))
            assert _has(second, "kept") == [True, True, True]
    finally:
        for holder in holders:
            holder.close()


def _urls(at: StackAddresses) -> list[str]:
    return [at.database_url, at.redis_url, at.s3_endpoint_url]


def test_nothing_acknowledged_is_lost_by_kill_9_of_a_server(open_dir: Path, plain: dict[str, str]) -> None:
    stack = Stack(open_dir / "data", environ=plain)
    with stack.running() as at:
        for name in _SERVERS:
            _put(at, f"before {name}")
            stack.kill(name)
            assert stack.tend() == [name]
            assert _has(at, f"before {name}") == [True, True, True]
        assert stack.tend() == []


def test_one_launcher_at_a_time_and_when_it_is_killed_the_next_loses_nothing(
    open_dir: Path, plain: dict[str, str]
) -> None:
    script = [sys.executable, "-c", _RUN, str(open_dir / "data")]
    with subprocess.Popen(script, stdout=subprocess.PIPE) as launcher:
        assert launcher.stdout is not None
        told = json.loads(launcher.stdout.readline())
        first = StackAddresses(**told["addresses"])
        left = [ProcessIdentity.of(pid) for pid in told["pids"]]
        _put(first, "kept")
        with pytest.raises(DataDirectoryInUse, match=f"process {launcher.pid}"):
            Stack(open_dir / "data", environ=plain).start()
        launcher.kill()
        launcher.wait()

    # At once: the servers of the killed launcher are still there, or on their way out.
    with Stack(open_dir / "data", environ=plain).running() as second:
        assert not any(one is not None and one.alive() for one in left)
        assert second == first
        assert _has(second, "kept") == [True, True, True]


def test_a_launcher_killed_in_initdb_is_no_harm(open_dir: Path, database_only: dict[str, str]) -> None:
    home = open_dir / "data" / "postgres"
    launcher = subprocess.Popen([sys.executable, "-c", _RUN, str(open_dir / "data")], stdout=subprocess.PIPE)
    with launcher:
        while not list(home.glob("making-*/cluster/*")):
            assert launcher.poll() is None
            time.sleep(0.005)
        launcher.kill()
        launcher.wait()
    assert not (home / "cluster").exists()

    with Stack(open_dir / "data", environ=database_only).running():
        pass
    assert not list(home.glob("making-*"))


def test_a_stale_postmaster_lock_is_removed(open_dir: Path, database_only: dict[str, str]) -> None:
    """Also where its process id lives on as another process, as after a restart of the machine."""
    with Stack(open_dir / "data", environ=database_only).running():
        pass
    lock = open_dir / "data" / "postgres" / "cluster" / "postmaster.pid"
    for content in (f"{os.getpid()}\n/elsewhere\n", "", "no number\n"):
        lock.write_text(content)
        with (
            Stack(open_dir / "data", environ=database_only).running() as at,
            psycopg.connect(at.database_url) as database,
        ):
            assert database.execute("SELECT 1").fetchone() == (1,)


def test_a_cluster_of_another_version_is_left_alone_and_named(
    open_dir: Path, database_only: dict[str, str]
) -> None:
    with Stack(open_dir / "data", environ=database_only, throwaway=True).running():
        pass
    version = open_dir / "data" / "postgres" / "cluster" / "PG_VERSION"
    version.write_text("14\n")

    with pytest.raises(StackError, match=r"made by PostgreSQL 14.*SLIPWAY_POSTGRES_BIN"):
        Stack(open_dir / "data", environ=database_only, throwaway=True).start()
    # The directory is free again after the failure.
    version.write_text("18\n")
    with Stack(open_dir / "data", environ=database_only, throwaway=True).running():
        pass


def test_nobody_gets_an_object_without_the_key_pair(stack: Stack) -> None:
    at = stack.addresses
    _on_s3(at, lambda s3: s3.put_object(Bucket=at.bucket, Key="private", Body=b"secret"))
    pid = stack.pid("seaweed")
    answers = {}
    for port in _listening(pid):
        for path in (f"/{at.bucket}/private", f"/buckets/{at.bucket}/private", f"/buckets/{at.bucket}/"):
            answers[port, path] = _status(f"http://127.0.0.1:{port}{path}")

    assert len({port for port, _ in answers}) == 10
    assert not [place for place, status in answers.items() if status is not None and status < 400]


def _listening(pid: int) -> list[int]:
    """The TCP ports on which a process listens; fails the test when one is open beyond loopback."""
    inodes = {str(path.readlink()) for path in Path(f"/proc/{pid}/fd").iterdir() if path.is_symlink()}
    ports = []
    for table in ("tcp", "tcp6"):
        for line in Path(f"/proc/net/{table}").read_text().splitlines()[1:]:
            fields = line.split()
            if fields[3] == "0A" and f"socket:[{fields[9]}]" in inodes:
                address, _, port = fields[1].rpartition(":")
                assert address == "0100007F", f"{line} is open beyond 127.0.0.1"
                ports.append(int(port, 16))
    return ports


def _status(url: str) -> int | None:
    try:
        with urllib.request.urlopen(url, timeout=5) as answer:
            return int(answer.status)
    except urllib.error.HTTPError as error:
        with error:
            return error.code
    except OSError:
        return None


def test_postgres_and_valkey_listen_on_loopback_and_want_their_passwords(stack: Stack) -> None:
    assert len(_listening(stack.pid("postgres"))) == 1
    assert len(_listening(stack.pid("valkey"))) == 1
    at = stack.addresses
    _, _, where = at.database_url.rpartition("@")
    with pytest.raises(psycopg.OperationalError, match="password"):
        psycopg.connect(f"postgresql://slipway:wrong@{where}")
    stranger = redis.Redis.from_url(f"redis://{at.redis_url.rpartition('@')[2]}")
    with stranger, pytest.raises(redis.AuthenticationError):
        stranger.ping()


def test_the_broker_keeps_everything(stack: Stack) -> None:
    with redis.Redis.from_url(stack.addresses.redis_url) as client:
        settings = client.config_get("appendonly", "maxmemory-policy")
    assert settings == {"appendonly": "yes", "maxmemory-policy": "noeviction"}


def test_the_durable_database_syncs_and_the_throwaway_one_does_not(
    stack: Stack, open_dir: Path, database_only: dict[str, str]
) -> None:
    query = "SELECT current_setting('fsync'), current_setting('max_connections')"
    with psycopg.connect(stack.addresses.database_url) as connection:
        assert connection.execute(query).fetchone() == ("off", "200")
    with (
        Stack(open_dir / "data", environ=database_only).running() as at,
        psycopg.connect(at.database_url) as connection,
    ):
        assert connection.execute(query).fetchone() == ("on", "200")
