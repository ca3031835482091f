"""Debian's chromium, driven by Playwright, and how each test breaks it."""

import shutil
from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from playwright.sync_api import Browser, Page, Route, sync_playwright

from registry.contract.tokens import Role
from tests.web.world import World

CHROMIUM = "/usr/bin/chromium"
ARGUMENTS = (
    "--no-sandbox",
    "--disable-gpu",
    "--disable-dev-shm-usage",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-default-apps",
    "--disable-sync",
    "--no-first-run",
)
MISSING = "chromium is missing; to run these tests: sudo apt-get update && sudo apt-get install chromium"


@pytest.fixture(scope="module")
def chromium() -> Iterator[Browser]:
    if shutil.which(CHROMIUM) is None:
        pytest.skip(MISSING)
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=list(ARGUMENTS))
        yield browser
        browser.close()


@contextmanager
def visit(chromium: Browser, world: World, name: str = "ana", **wishes: object) -> Iterator[Page]:
    """A page of somebody who is signed in. `wishes`: of the browser's context."""
    context = chromium.new_context(**wishes)  # type: ignore[arg-type]
    context.set_default_timeout(20_000)
    visitor = world.visitor(name, Role.RELEASER)
    context.add_cookies(
        [{"name": "slipway_session", "value": visitor.cookies["slipway_session"], "url": world.url}]
    )
    try:
        yield context.new_page()
    finally:
        context.close()


def block(page: Page, name: str) -> None:
    """The file never arrives."""
    page.route(f"**/static/{name}*", lambda route: route.abort())


def throwing(page: Page) -> None:
    """The script fails at its first line."""

    def answer(route: Route) -> None:
        route.fulfill(body="throw new Error('broken')", content_type="text/javascript")

    page.route("**/static/slipway.js*", answer)


def deaf_fetch(page: Page) -> None:
    """The script runs, and none of its requests is answered."""
    page.route("**/rev/**", lambda route: route.abort())


def read(page: Page) -> None:
    """The time that a person needs before the press counts."""
    page.wait_for_timeout(450)
