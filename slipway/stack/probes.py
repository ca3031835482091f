"""Whether a server really works: a query, a PING, a PUT. The same for embedded and external servers."""

import boto3
import psycopg
import redis
from botocore.config import Config
from botocore.exceptions import BotoCoreError, ClientError

from slipway.stack.addresses import S3Keys
from slipway.stack.server import NotReady

_TIMEOUT_S = 3
_READY_KEY = "slipway-ready"


def probe_database(url: str) -> None:
    """One query; raises NotReady."""
    try:
        with psycopg.connect(_for_libpq(url), connect_timeout=_TIMEOUT_S) as connection:
            connection.execute("SELECT 1")
    except psycopg.Error as error:
        raise NotReady(_one_line(error)) from error


def probe_redis(url: str) -> None:
    """One PING; raises NotReady (also while the server still loads its file)."""
    try:
        client = redis.Redis.from_url(url, socket_timeout=_TIMEOUT_S, socket_connect_timeout=_TIMEOUT_S)
        with client:
            client.ping()
    except (redis.RedisError, ValueError, OSError) as error:
        raise NotReady(_one_line(error)) from error


class BucketProbe:
    """Makes the bucket when it is missing, then one PUT; keeps its client, which is dear to build."""

    def __init__(self, endpoint_url: str, keys: S3Keys, bucket: str) -> None:
        self._bucket = bucket
        self._client = boto3.client(
            "s3",
            endpoint_url=endpoint_url,
            aws_access_key_id=keys.access_key,
            aws_secret_access_key=keys.secret_key,
            region_name="us-east-1",
            config=Config(
                connect_timeout=_TIMEOUT_S,
                read_timeout=_TIMEOUT_S,
                retries={"total_max_attempts": 1},
                s3={"addressing_style": "path"},
            ),
        )

    def __call__(self) -> None:
        """Raises NotReady with the server's answer."""
        try:
            self._make_bucket()
            self._client.put_object(Bucket=self._bucket, Key=_READY_KEY, Body=b"ready")
        except (BotoCoreError, ClientError) as error:
            raise NotReady(_one_line(error)) from error

    def close(self) -> None:
        """Closes the client's connections."""
        self._client.close()

    def _make_bucket(self) -> None:
        try:
            self._client.head_bucket(Bucket=self._bucket)
        except ClientError as error:
            if error.response["ResponseMetadata"]["HTTPStatusCode"] != 404:
                raise
            self._client.create_bucket(Bucket=self._bucket)


def _for_libpq(url: str) -> str:
    """SQLAlchemy's `postgresql+psycopg://…` as libpq reads it."""
    scheme, separator, rest = url.partition("://")
    return f"{scheme.partition('+')[0]}{separator}{rest}"


def _one_line(error: Exception) -> str:
    return " ".join(str(error).split()) or type(error).__name__
