"""Who looks at a page: the session's cookie, and what its rights are."""

from dataclasses import dataclass
from typing import Annotated

from fastapi import Depends, Request, Response

from registry.client import access
from registry.contract.tokens import Role, Whoami
from web.registry import Asker, Registry, SignedOut

COOKIE = "slipway_session"


@dataclass(frozen=True, slots=True)
class Visitor:
    ask: Asker
    who: Whoami

    def may(self, role: Role) -> bool:
        return role in self.who.roles or Role.ADMIN in self.who.roles

    @property
    def can_release(self) -> bool:
        return self.may(Role.RELEASER)


def asker(request: Request, secret: str) -> Asker:
    """Raises SignedOut for what can't be a secret; whether one is any good, the registry says."""
    registry: Registry = request.app.state.registry
    request_id: str = request.scope["slipway.request_id"]
    return Asker(registry.client(secret, request_id), request_id, registry.patience_s)


async def visitor(request: Request) -> Visitor:
    """Raises SignedOut."""
    secret = request.cookies.get(COOKIE)
    if not secret:
        raise SignedOut
    ask = asker(request, secret)
    return Visitor(ask, await ask.must(access.whoami()))


def remember(request: Request, response: Response, secret: str, seconds: int) -> None:
    """The cookie holds the session's own secret, never the token that it was made from."""
    response.set_cookie(
        COOKIE,
        secret,
        max_age=seconds,
        httponly=True,
        samesite="strict",
        secure=request.url.scheme == "https",
    )


def forget(response: Response) -> None:
    response.delete_cookie(COOKIE, httponly=True, samesite="strict")


Present = Annotated[Visitor, Depends(visitor)]
