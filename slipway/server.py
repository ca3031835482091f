"""One address for people: `python -m slipway.server` serves the registry's API and the web UI."""

import argparse
import logging
import os
import sys
from typing import TypeVar

import httpx
import uvicorn
from pydantic import ValidationError
from pydantic_settings import BaseSettings
from starlette.types import ASGIApp, Receive, Scope, Send

from registry import logs
from registry.app import build as build_registry
from registry.client.variables import strangers, wrong
from registry.settings import Settings
from web.app import build as build_web
from web.settings import Settings as WebSettings

S = TypeVar("S", bound=BaseSettings)

REGISTRY_PATHS = ("/v1", "/api/2.0", "/healthz", "/readyz", "/metrics", "/openapi.json", "/docs")


class Composed:
    """The registry's own paths go to the registry, all others to the web UI."""

    def __init__(self, registry: ASGIApp, web: ASGIApp) -> None:
        self._registry = registry
        self._web = web

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """The lifespan is the registry's: the web UI holds nothing that must be opened or closed."""
        to_registry = scope["type"] != "http" or _is_registry(scope["path"])
        await (self._registry if to_registry else self._web)(scope, receive, send)


def _is_registry(path: str) -> bool:
    return any(path == prefix or path.startswith(f"{prefix}/") for prefix in REGISTRY_PATHS)


def compose(settings: Settings, web_settings: WebSettings | None = None) -> ASGIApp:
    """The registry and the web UI over it, which asks in process."""
    registry = build_registry(settings)
    # A crash is a problem document like any other failure, not an exception in the page that asked.
    transport = httpx.ASGITransport(registry, raise_app_exceptions=False)
    return Composed(registry, build_web(web_settings or WebSettings(), transport))


def _read(kind: type[S]) -> S:
    """Ends the process with code 78 (EX_CONFIG) where a setting is wrong: starting again would not help."""
    try:
        return kind()
    except ValidationError as error:
        for sentence in wrong(kind, error):
            print(sentence, file=sys.stderr)
        print("`slipway up` sets what must be set, for a service of its own", file=sys.stderr)
        sys.exit(os.EX_CONFIG)


def main() -> None:
    parser = argparse.ArgumentParser(description="The registry's API and the web UI on one address.")
    parser.add_argument("--host", default="127.0.0.1")
    parser.add_argument("--port", type=int, default=8080)
    options = parser.parse_args()
    logs.configure()
    settings = _read(Settings)
    web_settings = _read(WebSettings)
    log = logging.getLogger(__name__)
    for sentence in strangers(os.environ):
        log.warning(sentence)
    log.info("settings: %s", settings.model_dump(mode="json"))
    uvicorn.run(
        compose(settings, web_settings),
        host=options.host,
        port=options.port,
        log_config=None,
        access_log=False,
        timeout_keep_alive=75,
        timeout_graceful_shutdown=5,
    )


if __name__ == "__main__":
    main()
