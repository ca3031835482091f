"""A form counts only when it was sent from a page of ours: no token that could expire on the worst night."""

from urllib.parse import urlsplit

from fastapi import Request


class ForeignForm(Exception):
    """The request came from another site, or nothing says from where."""


def require_own(request: Request) -> None:
    """Dependency of every POST. Raises ForeignForm.

    `Sec-Fetch-Site` is set by the browser and no page can forge it; browsers without it send `Origin`.
    """
    site = request.headers.get("sec-fetch-site")
    if site is not None:
        if site != "same-origin":
            raise ForeignForm(f"it came from a page of another address (Sec-Fetch-Site: {site})")
        return
    origin = request.headers.get("origin")
    if origin is None:
        raise ForeignForm("it says neither by Sec-Fetch-Site nor by Origin from which page it came")
    if urlsplit(origin).netloc != request.headers.get("host"):
        raise ForeignForm(f"it came from {origin}, not from this address")
