"""The registry's settings, from the environment. Printed without secrets at start."""

from pydantic import AliasChoices, Field, SecretStr
from pydantic_settings import BaseSettings, SettingsConfigDict


class Settings(BaseSettings):
    """Every field is the variable SLIPWAY_<NAME>, except the three addresses and the store's keys."""

    model_config = SettingsConfigDict(env_prefix="SLIPWAY_", extra="ignore", populate_by_name=True)

    database_url: SecretStr = Field(validation_alias=AliasChoices("DATABASE_URL", "database_url"))
    database_listen_url: SecretStr | None = Field(
        default=None,
        validation_alias=AliasChoices("DATABASE_LISTEN_URL", "database_listen_url"),
        description="A direct connection for LISTEN where DATABASE_URL goes through a pooler",
    )
    redis_url: SecretStr = Field(validation_alias=AliasChoices("REDIS_URL", "redis_url"))
    s3_endpoint_url: str | None = Field(
        default=None, validation_alias=AliasChoices("S3_ENDPOINT_URL", "s3_endpoint_url")
    )
    s3_access_key: SecretStr = Field(validation_alias=AliasChoices("AWS_ACCESS_KEY_ID", "s3_access_key"))
    s3_secret_key: SecretStr = Field(validation_alias=AliasChoices("AWS_SECRET_ACCESS_KEY", "s3_secret_key"))
    s3_bucket: str = "slipway"
    s3_region: str = "us-east-1"
    database_pool: int = Field(default=20, ge=1, description="Connections; exhaustion is a 503 within 3 s")
    admin_token: SecretStr | None = Field(
        default=None, description="A token with every role, made at start where no token exists yet"
    )
    builder_token: SecretStr | None = Field(
        default=None, description="A token with the role builder for workers, made at start"
    )
    max_body_bytes: int = 16 * 1024 * 1024
    max_upload_bytes: int = 100 * 1024**3
    presign_s: int = Field(default=3600, ge=60, description="Life of presigned URLs, in seconds")
    idempotency_s: int = Field(default=86_400, description="How long answers are kept under their key")
    node_stale_s: float = Field(default=15, description="Without a report for so long, a node is unknown")
    controller: bool = Field(default=True, description="Run the release loop in this process")
    look_every_s: float = Field(default=2, gt=0, description="Time between two looks of the controller")
    sweep_every_s: float = Field(default=5, gt=0, description="Time between two sweeps over tasks")
    republish_after_s: float = Field(default=15, gt=0, description="Age of a wake-up that is sent again")
