"""How a body is read: strictly where a person asks (`Command`), leniently where a program reports.

What is wrong with it is told after FastAPI has asked for token and role: who may not ask is told that first.
"""

from collections.abc import Callable, Coroutine
from typing import Any

from fastapi import Request, Response
from fastapi.exceptions import RequestValidationError
from fastapi.routing import APIRoute

from registry.contract.asked import Misread, parsed, read
from registry.contract.problems import FieldError
from registry.contract.wire import Command

Handler = Callable[[Request], Coroutine[Any, Any, Response]]

JSON = "application/json"


class SentRoute(APIRoute):
    """The route class of everything that takes a body; `EdgeRoute` is one."""

    def get_route_handler(self) -> Handler:
        handle = super().get_route_handler()
        if self.body_field is None:
            return handle
        kind = self.body_field.field_info.annotation

        async def reading(request: Request) -> Response:
            sent = Sent(request, kind)
            try:
                return await handle(sent)
            except RequestValidationError as error:
                raise await sent.explained(error) from error

        return reading


class Sent(Request):
    """A request whose `json()` is what its route takes, read already; FastAPI then has nothing left to do."""

    def __init__(self, request: Request, kind: Any) -> None:
        super().__init__(request.scope, request.receive)
        self._request = request
        self._kind = kind
        self._wrong: tuple[FieldError, ...] = ()
        self._looked = False

    async def body(self) -> bytes:
        return await self._request.body()

    async def json(self) -> Any:
        self._looked = True
        content = await self.body()
        try:
            return read(self._kind, content) if is_command(self._kind) else parsed(content)
        except Misread as error:
            self._wrong = error.errors
            # No model takes this, so it is refused when its turn comes.
            return object()

    async def explained(self, error: RequestValidationError) -> RequestValidationError:
        """The same error with our own words about the body."""
        others = [each for each in error.errors() if each["loc"][0] != "body"]
        if self._wrong:
            return RequestValidationError([*others, *(_detail(each) for each in self._wrong)])
        if not self._looked and len(others) < len(error.errors()) and await self.body():
            given = self.headers.get("content-type")
            came = f"it came as {given[:64]}" if given else "it came without the header Content-Type"
            wrong = FieldError(where="", what=f"{came}; send JSON and say so: Content-Type: {JSON}")
            return RequestValidationError([*others, _detail(wrong)])
        return error


def is_command(kind: Any) -> bool:
    """Whether a person asks with it: a Command, or one that may be left out."""
    alternatives = getattr(kind, "__args__", (kind,))
    return any(isinstance(each, type) and issubclass(each, Command) for each in alternatives)


def _detail(error: FieldError) -> dict[str, Any]:
    place = ("body", *error.where.split(".")) if error.where else ("body",)
    return {"type": "value_error", "loc": place, "msg": error.what}
