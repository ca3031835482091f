"""What a browser alone can tell: accessibility in both colour schemes, and how pages stay current."""

from collections.abc import Iterator

import pytest
from axe_playwright_python.sync_playwright import Axe  # type: ignore[import-untyped]
from playwright.sync_api import Browser, Page, expect

from registry.client import deployments, releases
from registry.contract.deployments import Pin
from registry.contract.releases import Transition
from tests.browser.drive import chromium, visit
from tests.web.world import World

__all__ = ["chromium"]

pytestmark = pytest.mark.browser
RULES = {"runOnly": ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa", "best-practice"]}


@pytest.fixture(scope="module")
def shown(world: World) -> Iterator[dict[str, str]]:
    """Pages with something to see on them, by what they show."""
    trial, paused, gone = world.deployment(1), world.deployment(1), world.deployment(1, 2)
    world.trial(trial, 2, steps=2)
    release = world.trial(paused, 2)
    world.run(world.registry.client(releases.pause(paused, release.number, Transition(reason="odd labels"))))
    receipt = world.roll_back(gone)
    yield {
        "board": "/",
        "trial": f"/d/{trial}",
        "rolled back": f"/d/{gone}",
        "confirm": f"/d/{trial}/rollback",
        "receipt": f"/rollbacks/{receipt.id}",
        "missing": "/d/prod/missing",
    }


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_pages_are_accessible(chromium: Browser, world: World, shown: dict[str, str], scheme: str) -> None:
    with visit(chromium, world, color_scheme=scheme) as page:
        found = []
        for what, path in shown.items():
            page.goto(world.url + path)
            found += [(what, each) for each in (*_violations(page), *_small_targets(page))]
        assert not found
        page.context.clear_cookies()
        page.goto(f"{world.url}/login")
        assert not _violations(page)


def _violations(page: Page) -> list[str]:
    answer = Axe().run(page, options=RULES)
    return [
        f"{each['id']}: {node['html'][:160]} {node.get('failureSummary', '')}"
        for each in answer.response["violations"]
        for node in each["nodes"]
    ]


def _small_targets(page: Page) -> list[str]:
    """Controls under 44 px; links within a sentence are exempt."""
    found: list[str] = page.evaluate(
        """() => [...document.querySelectorAll('button, .button, .rollback, .keep, summary, nav a, h2 a')]
        .filter(each => each.offsetParent && each.getBoundingClientRect().height < 43.5)
        .map(each => each.outerHTML.slice(0, 120))"""
    )
    return found


def test_a_page_follows_what_happens_and_says_it_once(chromium: Browser, world: World) -> None:
    ref = world.deployment(1, 2)
    with visit(chromium, world, timezone_id="Asia/Tokyo") as page:
        errors: list[str] = []
        page.on("pageerror", lambda error: errors.append(str(error)))
        page.goto(f"{world.url}/d/{ref}")
        expect(page.locator("#asof")).to_contain_text("here)")
        page.get_by_role("group").first.locator("summary").click()
        world.run(world.registry.client(deployments.pin(ref, Pin(reason="holiday freeze"))))
        expect(page.get_by_role("main")).to_contain_text("holiday freeze")
        expect(page.get_by_role("status")).to_have_text(f"Pinned · {ref}")
        assert page.title().startswith("Pinned")
        assert page.locator("details[open]").count() == 1, "what was opened stays open"
        assert not errors


def test_a_page_that_is_not_current_says_so(chromium: Browser, world: World) -> None:
    ref = world.deployment(1, 2)
    with visit(chromium, world) as page:
        page.goto(f"{world.url}/d/{ref}")
        page.context.set_offline(True)
        expect(page.locator("#stale")).to_contain_text("Not current: no answer for", timeout=15_000)
        page.context.set_offline(False)
        expect(page.locator("#stale")).to_be_hidden(timeout=15_000)


def test_nothing_is_replaced_while_somebody_writes(chromium: Browser, world: World) -> None:
    ref = world.deployment(1, 2)
    receipt = world.roll_back(ref)
    with visit(chromium, world) as page, visit(chromium, world, "ben") as other:
        for each in (page, other):
            each.goto(f"{world.url}/rollbacks/{receipt.id}")
        page.get_by_label("Add a reason").fill("I am still writing")
        other.get_by_label("Add a reason").fill("wrong labels")
        other.get_by_role("button", name="Add", exact=True).click()
        expect(other.get_by_role("main")).to_contain_text("ben: wrong labels")
        expect(page.locator("#stale")).to_contain_text("it changed while you write", timeout=15_000)
        expect(page.get_by_label("Add a reason")).to_have_value("I am still writing")
        page.get_by_role("button", name="Add", exact=True).click()
        expect(page.get_by_role("main")).to_contain_text("ana: I am still writing")
