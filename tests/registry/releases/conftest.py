"""A database in which three versions of one model are built, made once: tests of releases begin there."""

import asyncio
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import psycopg
import pytest
from psycopg import sql

from registry.client import AsyncClient
from slipway.stack import Stack
from tests.conftest import address, fresh_database
from tests.registry.conftest import ADMIN, Registry, serving, settings_for
from tests.registry.releases.stage import build_versions

_STAGED = "template_staged"


@pytest.fixture(scope="session")
def _staged(stack: Stack, _admin: psycopg.Connection, _template: str) -> str:
    _admin.execute(
        sql.SQL("CREATE DATABASE {} TEMPLATE {} STRATEGY file_copy").format(
            sql.Identifier(_STAGED), sql.Identifier(_template)
        )
    )

    async def work() -> None:
        settings = settings_for(replace(stack.addresses, database_url=address(stack.addresses, _STAGED)))
        async with serving(settings) as url:
            client = AsyncClient(url, ADMIN)
            await build_versions(Registry(url, settings, client, []))
            await client.close()

    # In a thread of its own: the tests' event loop must not see another one come and go.
    with ThreadPoolExecutor(1) as threads:
        threads.submit(lambda: asyncio.run(work())).result()
    # A server process may be there a moment longer than its client, and a template must have none.
    _admin.execute(
        "SELECT pg_terminate_backend(pid, 5000) FROM pg_stat_activity WHERE datname = %s", [_STAGED]
    )
    return _STAGED


@pytest.fixture
def database_url(stack: Stack, _admin: psycopg.Connection, _staged: str) -> Iterator[str]:
    """The address of a copy of it, of this test's own."""
    yield from fresh_database(stack.addresses, _admin, _staged)
