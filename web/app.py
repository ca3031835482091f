"""The web UI as an ASGI app over a registry that it reaches by the given transport."""

import httpx
from fastapi import FastAPI
from starlette.types import ASGIApp

from web import assets, problems
from web.edge import Edge
from web.pages import board, deployment, login, receipt, rollback
from web.registry import Registry
from web.settings import Settings

ROUTERS = (
    assets.router,
    login.router,
    board.router,
    deployment.router,
    rollback.router,
    receipt.router,
)


def build(settings: Settings, transport: httpx.AsyncBaseTransport, url: str = "http://registry") -> ASGIApp:
    """`transport` reaches the registry at `url`: in process (httpx.ASGITransport) or over HTTP."""
    app = FastAPI(title="Slipway", docs_url=None, redoc_url=None, openapi_url=None)
    app.state.settings = settings
    app.state.registry = Registry(transport, url, settings.panel_timeout_s)
    problems.install(app)
    for router in ROUTERS:
        app.include_router(router)
    return Edge(app)
