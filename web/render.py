"""Templates: autoescaped, strict about missing names, and the frame that every page has."""

from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial
from pathlib import Path

from fastapi import Request
from fastapi.responses import HTMLResponse
from jinja2 import Environment, FileSystemLoader, StrictUndefined

from registry.contract.tokens import Whoami
from web.assets import VERSIONS
from web.charts.lane import lane
from web.charts.meter import meter
from web.charts.sharebar import share_bar
from web.views.words import clock

CALM_MS, URGENT_MS = 2000, 700
# Set by the script after every look that worked: while it is there, a page needs no reload by header.
ALIVE_COOKIE = "slipway_alive"

_environment = Environment(
    loader=FileSystemLoader(Path(__file__).parent / "templates"),
    autoescape=True,
    undefined=StrictUndefined,
    trim_blocks=True,
    lstrip_blocks=True,
)
_environment.globals.update(share_bar=share_bar, lane=lane, meter=meter, assets=VERSIONS)


@dataclass(frozen=True, slots=True)
class Frame:
    """`revision` empty: the page does not change by itself. `every_ms`: how often the script looks.

    `swap`: the element that the script may replace. `refresh_s`: reload by header where the script is dead.
    """

    title: str
    who: Whoami | None = None
    revision: str = ""
    every_ms: int = CALM_MS
    swap: str = "main"
    refresh_s: int | None = None


def page(
    request: Request, template: str, frame: Frame, status: int = 200, /, **values: object
) -> HTMLResponse:
    """One page. `values` are view models; templates only place them."""
    now = datetime.now(UTC)
    refreshes = frame.refresh_s is not None and not _reload_unwanted(request)
    html = _environment.get_template(template).render(
        frame=frame,
        now=now,
        clock=partial(clock, now=now),
        path=request.url.path,
        here=f"{request.url.scheme}://{request.url.netloc}",
        refreshes=refreshes,
        request_id=request.scope["slipway.request_id"],
        **values,
    )
    response = HTMLResponse(html, status)
    response.headers["cache-control"] = "no-store"
    if refreshes:
        response.headers["refresh"] = str(frame.refresh_s)
    return response


def _reload_unwanted(request: Request) -> bool:
    """The script proved alive a moment ago, or the reader asked for a page that stands still."""
    return request.cookies.get(ALIVE_COOKIE) == "1" or "stay" in request.query_params
