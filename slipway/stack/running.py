"""The servers of a stack that another process runs here: where they answer, from what it wrote down."""

from collections.abc import Mapping
from pathlib import Path

from slipway.stack.addresses import S3Keys, StackAddresses
from slipway.stack.external import External
from slipway.stack.postgres import Postgres
from slipway.stack.seaweed import Seaweed
from slipway.stack.state import StackState
from slipway.stack.valkey import Valkey


def running_addresses(data_dir: Path, environ: Mapping[str, str]) -> StackAddresses:
    """Of the stack over `data_dir`, which is in use; what the environment names replaces a server."""
    state = StackState.load(data_dir)
    external = External.of(environ)
    keys = S3Keys(state.s3_access_key, state.s3_secret_key)

    def port(name: str) -> int:
        return state.ports.get(name, 0)

    postgres = Postgres(data_dir, port("postgres.sql"), state.database_password, None, False, environ)
    valkey = Valkey(data_dir, port("valkey.resp"), state.redis_password, environ)
    seaweed = Seaweed(data_dir, {"s3": port("seaweed.s3")}, keys, external.bucket, False, environ)
    chosen = external.s3_keys or keys
    return StackAddresses(
        database_url=external.database_url or postgres.url,
        redis_url=external.redis_url or valkey.url,
        s3_endpoint_url=external.s3_endpoint_url or seaweed.url,
        s3_access_key=chosen.access_key,
        s3_secret_key=chosen.secret_key,
        bucket=external.bucket,
    )
