"""Keeping secrets out of sentences: every message may end in a terminal, a log or a ticket."""

import re

_PREFIX = re.compile(r"(?:[A-Za-z][A-Za-z0-9+.-]*:)?(?://)?")
_NAMED = re.compile(r"(?i)((?:pass|secret|token|sslpass)\w*\s*=\s*)('[^']*'|[^&\s]*)")
_BETWEEN = re.compile(r"[/:@?#&=\s'\"]+")
# Shorter pieces would also hide parts of plain words.
_SHORTEST_PIECE = 3
HIDDEN = "***"


def masked(url: str) -> str:
    """An address without user and password, also where it is written wrongly."""
    prefix = _PREFIX.match(url)
    start = prefix.end() if prefix else 0
    at = url.rfind("@")
    if at >= 0:
        # What looks like a scheme before the user may be the user.
        kept = url[:start] if url[:start].endswith("//") else ""
        url = f"{kept}{HIDDEN}@{url[at + 1 :]}"
    return _NAMED.sub(rf"\g<1>{HIDDEN}", url)


def redacted(text: str, url: str) -> str:
    """What a library says of `url`, without what `masked` would hide: whole, or in pieces."""
    text = text.replace(url, masked(url))
    prefix = _PREFIX.match(url)
    hidden = [url[prefix.end() if prefix else 0 : url.rfind("@")]] if "@" in url else []
    hidden += [found[1] for found in _NAMED.findall(url)]
    pieces = {piece for part in hidden for piece in (part, *_BETWEEN.split(part))}
    for piece in sorted(pieces, key=len, reverse=True):
        if len(piece) >= _SHORTEST_PIECE:
            text = text.replace(piece, HIDDEN)
    return _NAMED.sub(rf"\g<1>{HIDDEN}", text)
