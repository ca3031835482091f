"""What a gateway worker may be told by its environment, as SLIPWAY_GATEWAY_…; durations in seconds, sizes in
bytes."""

from pydantic import Field
from pydantic_settings import BaseSettings, SettingsConfigDict


class GatewaySettings(BaseSettings):
    model_config = SettingsConfigDict(env_prefix="SLIPWAY_GATEWAY_", frozen=True)

    body_limit_bytes: int = Field(default=16 << 20, ge=1024, description="Larger bodies are answered 413")
    json_limit_bytes: int = Field(
        default=4 << 20, ge=1024, description="Larger JSON parts are answered 413: they hold the event loop"
    )
    default_timeout_s: float = Field(default=30, gt=0, description="For requests without their own time-out")
    longest_timeout_s: float = Field(default=120, gt=0, description="Longer wishes are cut to it")
    queue_rows: int = Field(default=1024, ge=1, description="Rows that may wait for one engine")
    run_limit_s: float = Field(
        default=60, gt=0, description="An engine run that takes longer means a lost engine"
    )
    pipeline_workers: int = Field(
        default=1, ge=1, le=64, description="Processes per version for dear pipeline steps, in each worker"
    )
    pipeline_limit_s: float = Field(
        default=10, gt=0, description="A pipeline worker that takes longer for one request is replaced"
    )
    pipeline_queue: int = Field(default=256, ge=1, description="Requests that may wait for one pipeline")
    drain_s: float = Field(default=15, gt=0, description="After SIGTERM, for requests that are inside")
    access_log_bytes: int = Field(
        default=32 << 20, ge=0, description="Size of the request log before it begins anew; 0: no log"
    )
