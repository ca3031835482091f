"""Where the three servers answer, and the environment variables that say so."""

from dataclasses import dataclass, field

DEFAULT_BUCKET = "slipway"


@dataclass(frozen=True)
class StackAddresses:
    """`database_url` and `redis_url` hold their passwords; `s3_endpoint_url` is http(s)://host:port."""

    database_url: str = field(repr=False)
    redis_url: str = field(repr=False)
    s3_endpoint_url: str
    s3_access_key: str
    s3_secret_key: str = field(repr=False)
    bucket: str

    def environment(self) -> dict[str, str]:
        """The variables by which every Slipway process finds the servers."""
        return {
            "DATABASE_URL": self.database_url,
            "REDIS_URL": self.redis_url,
            "S3_ENDPOINT_URL": self.s3_endpoint_url,
            "AWS_ACCESS_KEY_ID": self.s3_access_key,
            "AWS_SECRET_ACCESS_KEY": self.s3_secret_key,
            "SLIPWAY_S3_BUCKET": self.bucket,
        }


@dataclass(frozen=True)
class S3Keys:
    """A key pair of an S3 server."""

    access_key: str
    secret_key: str = field(repr=False)
