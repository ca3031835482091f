"""The incident path in a real browser: with whatever is broken, on a phone, by two people."""

import re
from collections.abc import Callable

import pytest
from playwright.sync_api import Browser, Page, expect

from registry.client import releases
from tests.browser.drive import block, chromium, deaf_fetch, read, throwing, visit
from tests.web.world import World

__all__ = ["chromium"]

pytestmark = pytest.mark.browser


def healthy(page: Page) -> None:
    """Nothing is broken."""


def no_script(page: Page) -> None:
    block(page, "slipway.js")


def no_style(page: Page) -> None:
    block(page, "slipway.css")


@pytest.mark.parametrize("broken", [healthy, no_script, throwing, deaf_fetch, no_style])
def test_rollback_whatever_is_broken(chromium: Browser, world: World, broken: Callable[[Page], None]) -> None:
    ref = world.deployment(1, 2)
    with visit(chromium, world) as page:
        broken(page)
        _roll_back(page, world, ref)


def test_rollback_with_scripts_switched_off(chromium: Browser, world: World) -> None:
    ref = world.deployment(1, 2)
    with visit(chromium, world, java_script_enabled=False) as page:
        _roll_back(page, world, ref)


def _roll_back(page: Page, world: World, ref: str) -> None:
    page.goto(world.url)
    page.get_by_role("link", name=f"Roll back to v1… {ref}").click()
    expect(page.get_by_role("main")).to_contain_text("v1 serves 100")
    read(page)
    page.get_by_role("button", name="Roll back prod to v1 now").click()
    expect(page.get_by_role("main")).to_contain_text("All 2 nodes serve animals@1@fp32", timeout=20_000)
    expect(page).to_have_title(re.compile(r"^2/2 back on v1 · R-"))


def test_on_a_phone_the_link_is_always_in_reach(chromium: Browser, world: World) -> None:
    ref = world.deployment(1)
    world.trial(ref, 2)
    with visit(chromium, world, viewport={"width": 360, "height": 640}, has_touch=True) as page:
        page.goto(f"{world.url}/d/{ref}")
        link = page.get_by_role("link", name="Roll back to v1…")
        box = link.bounding_box()
        assert box is not None
        assert box["height"] >= 64
        assert box["width"] >= 320
        page.get_by_role("heading", name="Nodes").scroll_into_view_if_needed()
        page.mouse.wheel(0, -300)
        page.wait_for_timeout(200)
        expect(link).to_be_in_viewport()
        for path in ("/", f"/d/{ref}", f"/d/{ref}/rollback"):
            page.goto(world.url + path)
            assert page.evaluate("document.documentElement.scrollWidth <= innerWidth"), path
        page.set_viewport_size({"width": 320, "height": 640})
        assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
        keep, button = page.get_by_role("link", name="Keep v2"), page.get_by_role("button", name="now")
        above, below = button.bounding_box(), keep.bounding_box()
        assert above is not None and below is not None
        assert below["y"] - (above["y"] + above["height"]) >= 28


def test_two_people_press(chromium: Browser, world: World) -> None:
    ref = world.deployment(1, 2)
    with visit(chromium, world, "ana") as first, visit(chromium, world, "ben") as second:
        for page in (first, second):
            page.goto(f"{world.url}/d/{ref}/rollback")
        read(second)
        first.get_by_role("button", name="Roll back prod to v1 now").click()
        expect(first.get_by_role("main")).to_contain_text("nodes serve animals@1@fp32")
        second.get_by_role("button", name="Roll back prod to v1 now").click()
        expect(second.get_by_role("alert")).to_have_text(
            "Already rolled back by ana. Your press changed nothing."
        )
    assert len(world.run(world.registry.client(releases.receipts(ref))).items) == 1


def test_a_link_from_another_site_finds_one_signed_in(chromium: Browser, world: World) -> None:
    ref = world.deployment(1, 2)
    with visit(chromium, world) as page:
        page.route(
            "http://chat.localhost/",
            lambda route: route.fulfill(body=f'<a href="{world.url}/d/{ref}">look</a>'),
        )
        page.goto("http://chat.localhost/")
        page.get_by_role("link", name="look").click()
        expect(page.get_by_role("link", name="Roll back to v1…")).to_be_visible()
