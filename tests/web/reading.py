"""Reading pages as a browser without a script does: forms, titles, text."""

import re
import time
from html import unescape

import httpx

HIDDEN = re.compile(r'<input type="hidden" name="([^"]*)" value="([^"]*)">')
TAG = re.compile(r"<[^>]*>")


def text_of(answer: httpx.Response) -> str:
    """What is to be read in the main part, in one line."""
    main = answer.text.partition("<main")[2].partition("</main>")[0]
    plain = unescape(TAG.sub(" ", f"<main{main}"))
    return " ".join(re.sub(r"<time[^>]*>", "", plain).split())


def title_of(answer: httpx.Response) -> str:
    found = re.search(r"<title>(.*?)</title>", answer.text)
    assert found is not None
    return unescape(found[1])


def confirm_form(visitor: httpx.Client, ref: str, to: str | None = None) -> dict[str, str]:
    """The form of the confirm page, read for long enough."""
    answer = visitor.get(f"/d/{ref}/rollback", params={"to": to} if to else {})
    assert answer.status_code == 200, answer.text
    time.sleep(0.45)
    return form_of(answer)


def form_of(answer: httpx.Response) -> dict[str, str]:
    form = answer.text.partition("<main")[2]
    return {unescape(name): unescape(value) for name, value in HIDDEN.findall(form)}


def press(visitor: httpx.Client, ref: str, form: dict[str, str]) -> httpx.Response:
    return visitor.post(f"/d/{ref}/rollback", data=form)
