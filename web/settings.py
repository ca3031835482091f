"""The web UI's settings, from the environment."""

from pydantic import Field
from pydantic_settings import BaseSettings, SettingsConfigDict


class Settings(BaseSettings):
    """Every field is the variable SLIPWAY_WEB_<NAME>."""

    model_config = SettingsConfigDict(env_prefix="SLIPWAY_WEB_", extra="ignore")

    session_s: int = Field(
        default=43_200, ge=60, le=604_800, description="Life of a sign-in, in seconds (12 h)"
    )
    panel_timeout_s: float = Field(
        default=4, gt=0, description="How long one panel may wait for the registry, in seconds"
    )
