"""A database whose disk is full answers and reads, but can't write: that is what is said."""

import asyncio

import psycopg
import pytest

from tests import patience
from tests.registry.conftest import ADMIN, Registry

# The database itself refuses the write, with the code that it has for a full disk or one that fails.
_REFUSE = """
CREATE FUNCTION refuse() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN RAISE EXCEPTION 'could not extend file: No space left on device' USING ERRCODE = '{state}'; END $$;
CREATE TRIGGER refuse BEFORE INSERT ON models EXECUTE FUNCTION refuse();
"""


@pytest.mark.parametrize("state", ["53100", "58030"])
async def test_a_write_that_finds_no_space_says_so_and_readyz_too(registry: Registry, state: str) -> None:
    database_url = registry.settings.database_url.get_secret_value()
    headers = {"authorization": f"Bearer {ADMIN}"}
    async with patience.async_client(base_url=registry.url, headers=headers) as http:
        assert (await http.get("/readyz")).json()["dependencies"]["database"] == "ok"
        async with await psycopg.AsyncConnection.connect(database_url, autocommit=True) as connection:
            await connection.execute(_REFUSE.format(state=state))
        refused = await http.post("/v1/models", json={"name": "m"})
        assert refused.status_code == 503
        assert "can't write: its disk is full" in refused.json()["detail"]
        # Its answer is kept for a second.
        while (found := (await http.get("/readyz")).json())["dependencies"]["database"] == "ok":
            await asyncio.sleep(0.1)
        assert "can't write" in found["dependencies"]["database"]
        assert found["ready"], "what is read is still right"
        assert (await http.get("/v1/models")).status_code == 200
