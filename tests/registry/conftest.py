"""A whole registry on a real stack: its ASGI app served by uvicorn on loopback, a fresh database per test."""

import asyncio
import contextlib
import socket
from collections.abc import AsyncIterator
from dataclasses import dataclass

import pytest
import uvicorn

from registry.app import build
from registry.client import AsyncClient
from registry.client import access as access_calls
from registry.contract.tokens import Role, TokenCreate
from registry.settings import Settings
from slipway.stack import StackAddresses

ADMIN = "test-admin-token"


@dataclass
class Registry:
    """`client` is the admin's; `as_role` makes a token and a client of that role."""

    url: str
    settings: Settings
    client: AsyncClient
    clients: list[AsyncClient]

    async def as_role(self, *roles: Role, **scope: object) -> AsyncClient:
        body = TokenCreate(name="-".join(roles), roles=roles, **scope)  # type: ignore[arg-type]
        made = await self.client(access_calls.create_token(body))
        return self.with_token(made.secret)

    def with_token(self, token: str) -> AsyncClient:
        client = AsyncClient(self.url, token)
        self.clients.append(client)
        return client


@pytest.fixture
def settings(addresses: StackAddresses) -> Settings:
    return settings_for(addresses)


def settings_for(addresses: StackAddresses) -> Settings:
    """Of a registry that looks and sweeps often, so that no test waits for it."""
    return Settings(
        database_url=addresses.database_url,
        redis_url=addresses.redis_url,
        s3_endpoint_url=addresses.s3_endpoint_url,
        s3_access_key=addresses.s3_access_key,
        s3_secret_key=addresses.s3_secret_key,
        s3_bucket=addresses.bucket,
        admin_token=ADMIN,
        # The tests play the workers.
        verify_at_once_bytes=0,
        look_every_s=0.3,
        sweep_every_s=0.5,
        republish_after_s=2,
    )


@contextlib.asynccontextmanager
async def serving(settings: Settings) -> AsyncIterator[str]:
    """Serves a registry and gives its URL."""
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        config = uvicorn.Config(build(settings), log_config=None, lifespan="on", timeout_graceful_shutdown=2)
        server = uvicorn.Server(config)
        task = asyncio.create_task(server.serve(sockets=[listener]))
        while not server.started:
            if task.done():
                await task
                raise RuntimeError("the registry did not start")
            await asyncio.sleep(0.01)
        try:
            yield f"http://127.0.0.1:{listener.getsockname()[1]}"
        finally:
            server.should_exit = True
            await task


@pytest.fixture
async def registry(settings: Settings) -> AsyncIterator[Registry]:
    async with serving(settings) as url:
        made = Registry(url, settings, AsyncClient(url, ADMIN), [])
        try:
            yield made
        finally:
            for client in [made.client, *made.clients]:
                await client.close()
