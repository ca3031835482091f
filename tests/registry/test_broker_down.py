"""A broker that is silent: writes go on, at once; only the wake-up is lost until the sweep sends it again."""

import socket
import time

from registry.client import AsyncClient
from registry.settings import Settings
from tests.registry import support
from tests.registry.conftest import ADMIN, Registry, serving


async def test_a_silent_broker_delays_no_answer(settings: Settings) -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:  # takes connections, never answers
        redis_url = f"redis://127.0.0.1:{silent.getsockname()[1]}/0"
        settings = settings.model_copy(update={"redis_url": type(settings.redis_url)(redis_url)})
        async with serving(settings) as url:
            registry = Registry(url, settings, AsyncClient(url, ADMIN), [])
            try:
                began = time.monotonic()
                for content in (b"one", b"two", b"three"):
                    await support.sent(registry, content)  # completing an upload orders its verification
                assert time.monotonic() - began < 3
            finally:
                await registry.client.close()
