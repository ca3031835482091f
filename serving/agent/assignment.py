"""Long polling for the assignment: one request is always waiting at the registry."""

import asyncio
import logging
import random
from collections.abc import Callable
from dataclasses import dataclass

import httpx
import orjson
from pydantic import ValidationError

from registry.contract.nodes import Assignment, Fragment

WAIT_S = 30
FIRST_PAUSE_S = 0.2
LONGEST_PAUSE_S = 10.0

log = logging.getLogger("agent")


@dataclass(frozen=True, slots=True)
class ReadAssignment:
    """`notes`: one sentence for each fragment that this node's software doesn't understand."""

    assignment: Assignment
    notes: tuple[str, ...] = ()


def read_assignment(content: bytes) -> ReadAssignment:
    """A fragment of a newer registry that can't be read must not hide the others: it is left out, and
    what is held of its deployment goes on. Raises ValueError when nothing can be read."""
    plain = orjson.loads(content)
    if not isinstance(plain, dict) or not isinstance(plain.get("fragments"), list):
        raise ValueError("it has no list of fragments")
    good: list[Fragment] = []
    notes: list[str] = []
    for item in plain["fragments"]:
        try:
            good.append(Fragment.model_validate(item))
        except ValidationError as error:
            name = item.get("deployment") if isinstance(item, dict) else None
            first = error.errors(include_url=False, include_input=False)[0]
            where = ".".join(str(step) for step in first["loc"])
            notes.append(
                f"{name or 'a deployment'}: the new generation can't be read here ({where}: {first['msg']}); "
                f"bring this node's software up to date"
            )
    return ReadAssignment(Assignment.model_validate({**plain, "fragments": good}), tuple(notes))


class AssignmentPoll:
    """`arrived(assignment, etag)` is called for every new one, `contact()` for every answer."""

    def __init__(
        self,
        url: str,
        node: str,
        token: str,
        etag: str,
        arrived: Callable[[ReadAssignment, str], None],
        contact: Callable[[], None],
    ) -> None:
        self._path = f"/v1/nodes/{node}/assignment"
        self._etag = etag
        self._arrived = arrived
        self._contact = contact
        self._url = url
        self._token = token
        self.trouble = ""
        """Why the last attempt failed, empty while all is well."""

    async def run(self) -> None:
        """Until cancelled. The first question after a start or a failure doesn't wait, so that the
        contact is renewed at once."""
        wait, pause = 0, FIRST_PAUSE_S
        async with httpx.AsyncClient(
            base_url=self._url,
            headers={"authorization": f"Bearer {self._token}", "accept": "application/json"},
            timeout=httpx.Timeout(10.0, read=WAIT_S + 10),
            trust_env=False,
        ) as http:
            while True:
                trouble = await self._ask(http, wait)
                if trouble and trouble != self.trouble:
                    log.warning("assignment: %s", trouble)
                self.trouble = trouble
                if not trouble:
                    wait, pause = WAIT_S, FIRST_PAUSE_S
                    continue
                await asyncio.sleep(pause * (0.5 + random.random()))  # noqa: S311 - jitter is no secret
                wait, pause = 0, min(LONGEST_PAUSE_S, pause * 2)

    async def _ask(self, http: httpx.AsyncClient, wait: int) -> str:
        """One question. The sentence of what went wrong, empty when nothing did."""
        headers = {"if-none-match": self._etag} if self._etag else {}
        try:
            response = await http.get(self._path, params={"wait": wait}, headers=headers)
        except httpx.HTTPError as error:
            return f"no answer from the registry at {self._url}: {error or type(error).__name__}"
        if response.status_code == httpx.codes.NOT_MODIFIED:
            self._contact()
            return ""
        if response.status_code in (httpx.codes.UNAUTHORIZED, httpx.codes.FORBIDDEN):
            return (
                f"the registry refused this node's token ({response.status_code}): the node was removed or "
                f"belongs to another registry; enrol it anew with an empty --state and --enrol-token"
            )
        if response.status_code != httpx.codes.OK:
            return f"the registry answered {response.status_code}: {response.text[:300]}"
        try:
            assignment = read_assignment(response.content)
        except ValueError as error:
            return f"the registry's answer is no assignment: {error}"
        self._contact()
        self._etag = response.headers.get("etag", "")
        self._arrived(assignment, self._etag)
        return ""
