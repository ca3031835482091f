"""What the shared fixtures promise to every test."""

import socket

import psycopg
import pytest
import redis
from mypy_boto3_s3 import S3Client

from slipway.stack import StackAddresses


@pytest.mark.parametrize("time", [1, 2])
def test_each_test_has_a_migrated_database_of_its_own(database_url: str, time: int) -> None:
    with psycopg.connect(database_url) as database:
        assert database.execute("SELECT count(*) FROM alembic_version").fetchone() == (1,)
        database.execute("CREATE TABLE mark (number integer)")


@pytest.mark.parametrize("time", [1, 2])
def test_each_test_has_an_empty_broker(redis_url: str, time: int) -> None:
    with redis.Redis.from_url(redis_url) as broker:
        assert broker.dbsize() == 0
        broker.set("mark", time)


@pytest.mark.parametrize("time", [1, 2])
def test_each_test_has_an_empty_bucket(s3: S3Client, bucket: str, time: int) -> None:
    assert s3.list_objects_v2(Bucket=bucket)["KeyCount"] == 0
    s3.put_object(Bucket=bucket, Key="mark", Body=b"mark")


def test_addresses_are_those_of_the_single_fixtures(
    addresses: StackAddresses, database_url: str, redis_url: str, bucket: str
) -> None:
    assert addresses.environment()["DATABASE_URL"] == database_url
    assert addresses.environment()["REDIS_URL"] == redis_url
    assert addresses.environment()["SLIPWAY_S3_BUCKET"] == bucket


def test_sockets_beyond_loopback_are_blocked() -> None:
    """192.0.2.1 is reserved for documentation: nothing is sent to it even if the block were missing."""
    with socket.socket() as outward:
        outward.settimeout(0.1)
        with pytest.warns(UserWarning, match="192.0.2.1"), pytest.raises(RuntimeError, match="allowed"):
            outward.connect(("192.0.2.1", 9))
