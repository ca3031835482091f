"""The environment variables that any process reads, and what is said of others and of wrong values.

No process knows the settings of all: the list stands here, and a test compares it with the settings' types.
"""

import difflib
from collections.abc import Mapping
from typing import Any

from pydantic import AliasChoices, BaseModel, ValidationError

PREFIX = "SLIPWAY_"
KNOWN = (
    "SLIPWAY_ADMIN_TOKEN",
    "SLIPWAY_ALLOW_CODE",
    "SLIPWAY_BENCH_HOME",
    "SLIPWAY_BUILDER_TOKEN",
    "SLIPWAY_CACHE",
    "SLIPWAY_CACHE_GIB",
    "SLIPWAY_CONTROLLER",
    "SLIPWAY_DATABASE_POOL",
    "SLIPWAY_DATA_DIR",
    "SLIPWAY_ENROL_TOKEN",
    "SLIPWAY_EVENTS_KEEP_S",
    "SLIPWAY_EVENT_HEARTBEAT_S",
    "SLIPWAY_GATEWAY_ACCESS_LOG_BYTES",
    "SLIPWAY_GATEWAY_BODY_LIMIT_BYTES",
    "SLIPWAY_GATEWAY_DEFAULT_TIMEOUT_S",
    "SLIPWAY_GATEWAY_DRAIN_S",
    "SLIPWAY_GATEWAY_JSON_LIMIT_BYTES",
    "SLIPWAY_GATEWAY_LONGEST_TIMEOUT_S",
    "SLIPWAY_GATEWAY_PIPELINE_LIMIT_S",
    "SLIPWAY_GATEWAY_PIPELINE_QUEUE",
    "SLIPWAY_GATEWAY_PIPELINE_WORKERS",
    "SLIPWAY_GATEWAY_QUEUE_ROWS",
    "SLIPWAY_GATEWAY_RUN_LIMIT_S",
    "SLIPWAY_GC_EVERY_S",
    "SLIPWAY_GC_GRACE_S",
    "SLIPWAY_IDEMPOTENCY_S",
    "SLIPWAY_LOOK_EVERY_S",
    "SLIPWAY_MAX_BODY_BYTES",
    "SLIPWAY_MAX_UPLOAD_BYTES",
    "SLIPWAY_MAX_VERSION_BYTES",
    "SLIPWAY_MLFLOW_S3_BUCKETS",
    "SLIPWAY_MLFLOW_TRACKING_TOKEN",
    "SLIPWAY_MLFLOW_TRACKING_URLS",
    "SLIPWAY_NODE_ADDRESS",
    "SLIPWAY_NODE_DRAIN_S",
    "SLIPWAY_NODE_LABELS",
    "SLIPWAY_NODE_LISTEN",
    "SLIPWAY_NODE_NAME",
    "SLIPWAY_NODE_STALE_S",
    "SLIPWAY_NODE_STATE",
    "SLIPWAY_NODE_THREADS",
    "SLIPWAY_NODE_WORKERS",
    "SLIPWAY_PATIENCE_S",
    "SLIPWAY_POSTGRES_BIN",
    "SLIPWAY_PRESIGN_S",
    "SLIPWAY_REGISTRY_URL",
    "SLIPWAY_REPUBLISH_AFTER_S",
    "SLIPWAY_S3_BUCKET",
    "SLIPWAY_S3_REGION",
    "SLIPWAY_SANDBOX",
    "SLIPWAY_STEP_THREADS",
    "SLIPWAY_SWEEP_EVERY_S",
    "SLIPWAY_TOKEN",
    "SLIPWAY_URL",
    "SLIPWAY_VALKEY_SERVER",
    "SLIPWAY_VERIFY_AT_ONCE_BYTES",
    "SLIPWAY_WEBHOOK_FIRST_RETRY_S",
    "SLIPWAY_WEBHOOK_GIVE_UP_S",
    "SLIPWAY_WEBHOOK_LONGEST_RETRY_S",
    "SLIPWAY_WEBHOOK_NETWORKS",
    "SLIPWAY_WEBHOOK_TIMEOUT_S",
    "SLIPWAY_WEB_PANEL_TIMEOUT_S",
    "SLIPWAY_WEB_SESSION_S",
    "SLIPWAY_WEED",
    "SLIPWAY_WORK_DIR",
)


def strangers(environ: Mapping[str, str]) -> list[str]:
    """A sentence for each variable of ours that nobody reads: most likely it is misspelt."""
    told = []
    for name in sorted(environ):
        if name.startswith(PREFIX) and name not in KNOWN:
            # Without the prefix, which all share.
            short = [known.removeprefix(PREFIX) for known in KNOWN]
            near = difflib.get_close_matches(name.removeprefix(PREFIX), short, n=1)
            instead = f"did you mean {PREFIX}{near[0]}?" if near else "docs/settings.md lists those that are"
            told.append(f"{name} is not a setting and is ignored; {instead}")
    return told


def wrong(settings: type[BaseModel], error: ValidationError) -> list[str]:
    """A sentence for each setting that is missing or wrong: the variable, its value unless that is secret,
    and what is wrong with it."""
    return [_wrong(settings, item) for item in error.errors(include_url=False)]


def _wrong(settings: type[BaseModel], item: Any) -> str:
    place = str(item["loc"][0]) if item["loc"] else ""
    field = next((name for name in settings.model_fields if place in (name, variable(settings, name))), None)
    if field is None:
        return f"{place}: {item['msg']}"
    if item["type"] == "missing":
        return f"{variable(settings, field)} is not set; it must be"
    secret = "SecretStr" in str(settings.model_fields[field].annotation)
    value = "" if secret else f"={item['input']}"
    return f"{variable(settings, field)}{value}: {item['msg']}"


def variable(settings: type[BaseModel], name: str) -> str:
    """What the environment calls a field; the first name where it has several."""
    alias = settings.model_fields[name].validation_alias
    if isinstance(alias, AliasChoices):
        return next((str(each) for each in alias.choices if str(each).isupper()), name)
    if isinstance(alias, str):
        return alias
    return f"{settings.model_config.get('env_prefix', '')}{name.upper()}"
