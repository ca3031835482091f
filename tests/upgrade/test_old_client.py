"""An earlier state's clients on this registry: the same requests get the same status and every old field."""

import asyncio
import json
import re
from pathlib import Path
from typing import Any

import httpx
import psycopg
import pytest
from pydantic import BaseModel
from pydantic_core import to_jsonable_python

from registry.contract.builds import Build
from registry.contract.deployments import Deployment
from registry.contract.nodes import Assignment, Node
from registry.contract.releases import Receipt, Release
from registry.contract.tasks import Lease
from registry.contract.uploads import Upload
from registry.contract.verdicts import Explanation
from registry.contract.versions import Version
from registry.settings import Settings
from tests import patience
from tests.registry.conftest import serving
from tests.upgrade import wire
from tests.upgrade.record import operations_of

RECORDED = Path(__file__).parent / "recorded"
STATES = sorted(path.name for path in RECORDED.iterdir() if path.is_dir())


async def _ask(http: httpx.AsyncClient, exchange: wire.Exchange, names: wire.Names) -> httpx.Response:
    headers = dict(exchange.headers)
    if "authorization" in headers:
        headers["authorization"] = f"Bearer {names.apply(headers['authorization'])}"
    body = exchange.body if isinstance(exchange.body, str) else json.dumps(exchange.body)
    answer = await http.request(
        exchange.method, names.apply(exchange.path), headers=headers, content=names.apply(body)
    )
    for _ in range(400):
        if not exchange.until or (answer.content and wire.has(answer.json(), exchange.until)):
            return answer
        await asyncio.sleep(0.05)
        answer = await http.request(exchange.method, names.apply(exchange.path), headers=headers)
    raise AssertionError(f"{exchange.path} never had {exchange.until}: {answer.text}")


async def _query(database_url: str, exchange: wire.Exchange, names: wire.Names) -> list[str]:
    async with await psycopg.AsyncConnection.connect(database_url) as connection:
        rows = await (await connection.execute(exchange.path)).fetchall()  # type: ignore[arg-type]
    return wire.compare(exchange.answer, [list(row) for row in rows], names)


@pytest.mark.parametrize("state", STATES)
async def test_an_old_client_gets_what_it_got(settings: Settings, state: str) -> None:
    names = wire.Names()
    faults: list[str] = []
    database_url = settings.database_url.get_secret_value()
    # On a busy machine the one node is slow, not lost.
    patient = settings.model_copy(update={"node_stale_s": 120})
    async with (
        serving(patient) as url,
        httpx.AsyncClient(base_url=url, trust_env=False, timeout=30) as http,
    ):
        for number, exchange in enumerate(wire.read(RECORDED / state / "exchanges.jsonl"), 1):
            at = f"{number}. {exchange.method} {exchange.path[:80]}"
            if exchange.method == "SQL":
                faults += [f"{at}: {fault}" for fault in await _query(database_url, exchange, names)]
                continue
            answer = await _ask(http, exchange, names)
            assert answer.status_code == exchange.status, f"{at}: {answer.status_code} {answer.text}"
            faults += [
                f"{at}: header {name}" for name in exchange.answer_headers if name not in answer.headers
            ]
            for name in ("etag", "location"):
                if name in exchange.answer_headers:
                    names.learn(exchange.answer_headers[name], answer.headers.get(name, ""))
            if exchange.answer is not None:
                faults += [f"{at}: {each}" for each in wire.compare(exchange.answer, answer.json(), names)]
    assert faults == []


@pytest.mark.parametrize("state", STATES)
async def test_what_was_published_is_still_there(settings: Settings, state: str) -> None:
    """Paths, methods, parameters: nothing that an old client could call has gone, nothing new is required."""
    then = json.loads((RECORDED / state / "operations.json").read_text())
    async with serving(settings) as url, patience.async_client(base_url=url) as http:
        now = operations_of((await http.get("/openapi.json")).json())
    faults = []
    for path, operations in then.items():
        for method, known in operations.items():
            found = now.get(path, {}).get(method)
            if found is None:
                faults.append(f"{method} {path} is gone")
                continue
            given = {each.rstrip("!") for each in found}
            faults += [f"{method} {path}: {each} is gone" for each in known if each.rstrip("!") not in given]
            needed = [each for each in found if each.endswith("!") and each not in known]
            faults += [f"{method} {path} needs {each}" for each in needed]
    assert faults == []


READ: tuple[tuple[str, type[BaseModel]], ...] = (
    (r"GET /v1/nodes/[^/]+/assignment\?.*", Assignment),
    (r"GET /v1/nodes/[^/]+", Node),
    (r"POST /v1/tasks/[^/]+/claim", Lease),
    (r"POST /v1/uploads", Upload),
    (r"POST /v1/models/animals/versions", Version),
    (r"GET /v1/builds/[^/]+", Build),
    (r"GET /v1/deployments/prod/animals", Deployment),
    (r"GET /v1/deployments/prod/animals/releases/2", Release),
    (r"GET /v1/deployments/prod/animals/releases/2/explain", Explanation),
    (r"POST /v1/deployments/prod/animals/rollback", Receipt),
)


@pytest.mark.parametrize(("what", "kind"), READ, ids=[kind.__name__ for _, kind in READ])
@pytest.mark.parametrize("state", STATES)
def test_readers_ignore_what_they_do_not_know(state: str, what: str, kind: type[BaseModel]) -> None:
    """A later registry sends fields that this client has never heard of, at every level."""
    said = wire.read(RECORDED / state / "exchanges.jsonl")
    answers = [each.answer for each in said if re.fullmatch(what, f"{each.method} {each.path}")]
    found = [kind.model_validate(answer) for answer in answers if answer is not None and "type" not in answer]
    assert found, "the recording has one"
    for each in found:
        assert kind.model_validate(_with_strangers(each)) == each


def _with_strangers(value: Any) -> Any:
    """As JSON; every object that has named fields has one more."""
    if isinstance(value, BaseModel):
        told = value.model_dump(mode="json").keys()
        known = {name: _with_strangers(getattr(value, name)) for name in told}
        return {**known, "a_field_of_tomorrow": {"of": "any kind"}}
    if isinstance(value, dict):
        return {key: _with_strangers(each) for key, each in value.items()}
    if isinstance(value, tuple | list):
        return [_with_strangers(each) for each in value]
    return to_jsonable_python(value)
