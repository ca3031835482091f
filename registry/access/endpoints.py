"""Tokens over HTTP."""

from fastapi import APIRouter, Request, Response

from registry.access import service
from registry.contract.pages import Page
from registry.contract.tokens import Role, SessionCreate, Token, TokenCreate, TokenRotate, TokenSecret, Whoami
from registry.edge.pages import Limit, PageToken, after
from registry.edge.route import EdgeRoute, transaction
from registry.edge.sent import SentRoute
from registry.edge.unit import UnitOfWork, requires

router = APIRouter(prefix="/v1", tags=["access"], route_class=EdgeRoute)
# Not `EdgeRoute`s: an answer that is kept under its Idempotency-Key would keep the secret with it.
_sessions = APIRouter(tags=["access"], route_class=SentRoute)

_ADMIN = requires(Role.ADMIN)


@router.get("/whoami")
async def whoami(unit: UnitOfWork) -> Whoami:
    """Whose token this is, and what it may."""
    return service.whoami(unit)


@router.post("/tokens", status_code=201, dependencies=[_ADMIN])
async def create(body: TokenCreate, unit: UnitOfWork, response: Response) -> TokenSecret:
    """The secret is shown once; only its hash is kept."""
    response.headers["cache-control"] = "no-store"
    return await service.create(unit, body)


@router.get("/tokens", dependencies=[_ADMIN])
async def listing(unit: UnitOfWork, page_token: PageToken = None, limit: Limit = 100) -> Page[Token]:
    return await service.listing(unit, after(page_token, str), limit)


@router.post("/tokens/{token}/rotate", status_code=201, dependencies=[_ADMIN])
async def rotate(token: str, body: TokenRotate, unit: UnitOfWork, response: Response) -> TokenSecret:
    """The same rights under a new secret, shown once. The old one goes on working for the grace."""
    response.headers["cache-control"] = "no-store"
    return await service.rotate(unit, token, body)


@router.post("/tokens/{token}/revoke", dependencies=[_ADMIN])
async def revoke(token: str, unit: UnitOfWork) -> Token:
    return await service.revoke(unit, token)


@_sessions.post("/sessions", status_code=201)
async def create_session(request: Request, body: SessionCreate, response: Response) -> TokenSecret:
    """Swaps a token for a session with the same rights. The secret is shown once."""
    response.headers["cache-control"] = "no-store"
    async with transaction(request) as unit:
        return await service.create_session(unit, body)


@_sessions.post("/sessions/end")
async def end_session(request: Request) -> Token:
    """From now on this session is refused."""
    async with transaction(request) as unit:
        return await service.end_session(unit)


router.include_router(_sessions)
