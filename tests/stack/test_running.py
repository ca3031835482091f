"""A stack that another process runs is found by what it wrote down."""

from slipway.stack import Stack
from slipway.stack.running import running_addresses


def test_a_running_stack_is_found(stack: Stack) -> None:
    assert running_addresses(stack.data_dir, {}) == stack.addresses


def test_servers_that_are_named_replace_its_own(stack: Stack) -> None:
    named = {"DATABASE_URL": "postgresql://elsewhere/x", "SLIPWAY_S3_BUCKET": "other"}
    found = running_addresses(stack.data_dir, named)
    assert (found.database_url, found.bucket) == ("postgresql://elsewhere/x", "other")
    assert found.s3_endpoint_url == stack.addresses.s3_endpoint_url
