"""A registry whose retries are fast and whose webhooks may reach loopback."""

from collections.abc import Iterator
from ipaddress import IPv4Network

import pytest

from registry.settings import Settings
from tests.registry.events.receiver import Receiver

FAST = {
    "webhook_networks": (IPv4Network("127.0.0.0/8"),),
    "webhook_timeout_s": 5.0,
    "webhook_first_retry_s": 0.05,
    "webhook_longest_retry_s": 0.2,
    "event_heartbeat_s": 0.3,
    "database_pool": 8,
}


@pytest.fixture
def settings(settings: Settings) -> Settings:
    return settings.model_copy(update=FAST)


@pytest.fixture
def receiver() -> Iterator[Receiver]:
    with Receiver().running() as running:
        yield running
