"""Settings of a worker, from the environment."""

import os
from functools import cache
from pathlib import Path

from pydantic import Field, SecretStr
from pydantic_settings import BaseSettings, SettingsConfigDict


class Settings(BaseSettings):
    """`SLIPWAY_<NAME>` each, but for REDIS_URL."""

    model_config = SettingsConfigDict(env_prefix="SLIPWAY_", extra="ignore", populate_by_name=True)

    registry_url: str = Field(default="http://127.0.0.1:8080", description="Where the registry answers")
    token: SecretStr = Field(default=SecretStr(""), description="A token of the role builder")
    redis_url: str = Field(
        default="redis://127.0.0.1:6379/0", validation_alias="REDIS_URL", description="The broker of wake-ups"
    )
    work_dir: Path = Field(
        default=Path("slipway-work"), description="Cache of blobs and rooms of running builds"
    )
    cache_gib: float = Field(default=20, gt=0, description="Blobs kept in work_dir between builds, in GiB")
    step_threads: int = Field(
        default_factory=lambda: len(os.sched_getaffinity(0)),
        ge=1,
        description="Cores that a step may use where speed is not what it measures",
    )
    allow_code: bool = Field(
        default=False,
        description="Import formats that execute code (pickle, joblib, PyTorch source), in a sandbox",
    )
    patience_s: float = Field(
        default=60,
        gt=0,
        description="How long a task is claimed while the registry doesn't answer, in seconds",
    )

    def shown(self) -> str:
        """One line per setting, secrets hidden."""
        return "\n".join(f"{name} = {getattr(self, name)}" for name in type(self).model_fields)


@cache
def settings() -> Settings:
    return Settings()
