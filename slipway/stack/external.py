"""Servers that the environment names: each one replaces the embedded server of its kind."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from time import monotonic

from registry.client.secrets import masked, redacted
from slipway.stack.addresses import DEFAULT_BUCKET, S3Keys
from slipway.stack.errors import StackError
from slipway.stack.probes import BucketProbe, probe_database, probe_redis
from slipway.stack.process import pause_until
from slipway.stack.server import NotReady

_READY_WITHIN_S = 10.0
_PROBE_EVERY_S = 0.3


@dataclass(frozen=True)
class External:
    """What the environment names; None where Slipway starts a server of its own."""

    database_url: str | None
    redis_url: str | None
    s3_endpoint_url: str | None
    s3_keys: S3Keys | None
    bucket: str

    @classmethod
    def of(cls, environ: Mapping[str, str]) -> "External":
        """Reads DATABASE_URL, REDIS_URL, S3_ENDPOINT_URL with its keys, and SLIPWAY_S3_BUCKET."""
        endpoint = _address(environ, "S3_ENDPOINT_URL", ("http", "https"))
        keys = None
        if endpoint is not None:
            names = ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY")
            missing = [name for name in names if not environ.get(name)]
            if missing:
                raise StackError(
                    f"S3_ENDPOINT_URL={masked(endpoint)} is set, but not {' and '.join(missing)}. Set the "
                    "key pair of that server, or unset S3_ENDPOINT_URL to use the embedded one."
                )
            keys = S3Keys(environ["AWS_ACCESS_KEY_ID"], environ["AWS_SECRET_ACCESS_KEY"])
        return cls(
            database_url=database_address(environ),
            redis_url=_address(environ, "REDIS_URL", ("redis", "rediss", "unix")),
            s3_endpoint_url=endpoint,
            s3_keys=keys,
            bucket=environ.get("SLIPWAY_S3_BUCKET") or DEFAULT_BUCKET,
        )

    def wanted(self) -> list[str]:
        """The servers that have to be embedded."""
        given = {"postgres": self.database_url, "valkey": self.redis_url, "seaweed": self.s3_endpoint_url}
        return [name for name, url in given.items() if url is None]

    def checks(self) -> list[Callable[[], None]]:
        """For each server named outside, a function that returns when it works and raises StackError else."""
        checks: list[Callable[[], None]] = []
        if (database_url := self.database_url) is not None:
            checks.append(lambda: _await("DATABASE_URL", database_url, lambda: probe_database(database_url)))
        if (redis_url := self.redis_url) is not None:
            checks.append(lambda: _await("REDIS_URL", redis_url, lambda: probe_redis(redis_url)))
        if (endpoint := self.s3_endpoint_url) is not None and (keys := self.s3_keys) is not None:
            checks.append(lambda: _await_bucket(endpoint, keys, self.bucket))
        return checks


def database_address(environ: Mapping[str, str]) -> str | None:
    """DATABASE_URL; None where it is not set. Raises StackError, without secrets, where it is none."""
    return _address(environ, "DATABASE_URL", ("postgresql", "postgres"))


def _address(environ: Mapping[str, str], variable: str, schemes: tuple[str, ...]) -> str | None:
    """None where it is not set. Raises StackError for what no server of the kind can be at."""
    url = (environ.get(variable) or "").strip()
    if not url:
        return None
    scheme, separator, rest = url.partition("://")
    # `postgresql+psycopg://` is SQLAlchemy's way to name its driver.
    if not separator or not rest or scheme.split("+")[0] not in schemes:
        raise StackError(
            f"{variable}={masked(url)} is not an address: it must begin with {schemes[0]}://. Correct "
            f"{variable}; without {variable} Slipway starts a server of its own."
        )
    return url


def _await_bucket(endpoint: str, keys: S3Keys, bucket: str) -> None:
    try:
        probe = BucketProbe(endpoint, keys, bucket)
    except ValueError as error:
        said = redacted(str(error), endpoint)
        raise StackError(f"S3_ENDPOINT_URL={masked(endpoint)} is not an address: {said}") from error
    try:
        _await("S3_ENDPOINT_URL", endpoint, probe)
    finally:
        probe.close()


def _await(variable: str, url: str, check: Callable[[], None]) -> None:
    deadline = monotonic() + _READY_WITHIN_S
    while True:
        try:
            check()
            return
        except NotReady as reason:
            if not pause_until(deadline, _PROBE_EVERY_S):
                # Drivers tell an address that they can't read, whole or in pieces.
                said = redacted(str(reason), url)
                raise StackError(
                    f"the server named by {variable} does not answer: {said}. Start it or correct "
                    f"{variable}; without {variable} Slipway starts a server of its own."
                ) from reason
