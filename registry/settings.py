"""The registry's settings, from the environment. Printed without secrets at start."""

from ipaddress import IPv4Network, IPv6Network
from typing import Annotated

from pydantic import AliasChoices, Field, SecretStr, field_validator
from pydantic_settings import BaseSettings, NoDecode, SettingsConfigDict


class Settings(BaseSettings):
    """Every field is the variable SLIPWAY_<NAME>, except the three addresses and the store's keys."""

    model_config = SettingsConfigDict(env_prefix="SLIPWAY_", extra="ignore", populate_by_name=True)

    database_url: SecretStr = Field(
        validation_alias=AliasChoices("DATABASE_URL", "database_url"),
        description="The truth: postgresql://USER:PASSWORD@HOST:PORT/NAME, PostgreSQL 15 or newer",
    )
    database_listen_url: SecretStr | None = Field(
        default=None,
        validation_alias=AliasChoices("DATABASE_LISTEN_URL", "database_listen_url"),
        description="A direct connection for LISTEN where DATABASE_URL goes through a pooler",
    )
    redis_url: SecretStr = Field(
        validation_alias=AliasChoices("REDIS_URL", "redis_url"),
        description="The broker of wake-ups: redis://…, protocol 6.2 or newer",
    )
    s3_endpoint_url: str | None = Field(
        default=None,
        validation_alias=AliasChoices("S3_ENDPOINT_URL", "s3_endpoint_url"),
        description="The object store, as clients reach it too: presigned URLs name it. Unset: Amazon's",
    )
    s3_access_key: SecretStr = Field(
        validation_alias=AliasChoices("AWS_ACCESS_KEY_ID", "s3_access_key"),
        description="Key pair of the object store",
    )
    s3_secret_key: SecretStr = Field(
        validation_alias=AliasChoices("AWS_SECRET_ACCESS_KEY", "s3_secret_key"),
        description="Key pair of the object store",
    )
    s3_bucket: str = Field(default="slipway", description="The bucket; made where it is missing")
    s3_region: str = Field(default="us-east-1", description="Region that requests are signed for")
    database_pool: int = Field(default=20, ge=1, description="Connections; a fifth is kept for the loops")
    admin_token: SecretStr | None = Field(
        default=None, description="A token with every role, made at start where no token exists yet"
    )
    builder_token: SecretStr | None = Field(
        default=None, description="A token with the role builder for workers, made at start"
    )
    max_body_bytes: int = Field(
        default=16 * 1024 * 1024, ge=1, description="Largest body of a request; files go another way"
    )
    max_upload_bytes: int = Field(default=100 * 1024**3, ge=1, description="Largest file of an upload")
    verify_at_once_bytes: int = Field(
        default=4 * 1024 * 1024,
        ge=0,
        le=16 * 1024 * 1024,
        description="Files up to this size are read back and verified while their upload is completed, "
        "larger ones by a worker; 0: all by workers",
    )
    max_version_bytes: int = Field(
        default=1024**4, ge=1, description="Of all files of one version or data set together"
    )
    gc_every_s: float = Field(
        default=21_600, ge=0, description="Time between two runs of the collector; 0: only by command"
    )
    gc_grace_s: int = Field(
        default=7 * 86_400, ge=3600, description="The collector leaves alone what is younger"
    )
    presign_s: int = Field(default=3600, ge=60, description="Life of presigned URLs, in seconds")
    idempotency_s: int = Field(default=86_400, description="How long answers are kept under their key")
    node_stale_s: float = Field(default=15, description="Without a report for so long, a node is unknown")
    controller: bool = Field(default=True, description="Run the release loop in this process")
    look_every_s: float = Field(default=2, gt=0, description="Time between two looks of the controller")
    sweep_every_s: float = Field(default=5, gt=0, description="Time between two sweeps over tasks")
    republish_after_s: float = Field(default=15, gt=0, description="Age of a wake-up that is sent again")
    events_keep_s: int = Field(
        default=30 * 86_400, ge=3600, description="How long events and their deliveries are kept"
    )
    event_heartbeat_s: float = Field(default=15, gt=0, description="Time between signs of life of a stream")
    webhook_timeout_s: float = Field(default=10, gt=0, le=60, description="Longest attempt of a delivery")
    webhook_first_retry_s: float = Field(default=5, gt=0, description="Pause after a first failed attempt")
    webhook_longest_retry_s: float = Field(default=3600, gt=0, description="Pauses double up to this one")
    webhook_give_up_s: float = Field(
        default=86_400, gt=0, description="After so long a delivery that fails once more is dead"
    )
    webhook_networks: Annotated[tuple[IPv4Network | IPv6Network, ...], NoDecode] = Field(
        default=(),
        description="Private networks that webhooks may reach, with commas: 10.1.0.0/16,127.0.0.0/8; "
        "public addresses need no leave",
    )
    mlflow_tracking_urls: Annotated[tuple[str, ...], NoDecode] = Field(
        default=(),
        description="MLflow tracking servers from which registered models are copied, with commas: "
        "http://mlflow:5000; no other address is ever fetched for an MLflow client",
    )
    mlflow_tracking_token: SecretStr | None = Field(
        default=None, description="Sent to these tracking servers as bearer token"
    )
    mlflow_s3_buckets: Annotated[tuple[str, ...], NoDecode] = Field(
        default=(),
        description="Buckets of our object store from which registered models are copied (s3://BUCKET/…), "
        "with commas",
    )

    @field_validator("webhook_networks", "mlflow_tracking_urls", "mlflow_s3_buckets", mode="before")
    @classmethod
    def _listed(cls, given: object) -> object:
        if not isinstance(given, str):
            return given
        return [each.strip() for each in given.split(",") if each.strip()]
