"""What people give to reach a registry, checked before a request is made of it: an address and a token."""

import httpx

from registry.client.secrets import masked


def address_of(url: str, source: str) -> str:
    """The address of a registry, without white space and slashes behind it; `source` says where it was read.

    Raises ValueError for what is none.
    """
    text = url.strip().rstrip("/")
    try:
        parsed = httpx.URL(text)
        fits = parsed.scheme in ("http", "https") and bool(parsed.host)
    except (httpx.InvalidURL, ValueError):
        fits = False
    if not fits:
        raise ValueError(f"{source} is no address: {masked(text)!r}. Write http://HOST:PORT or https://HOST")
    return text


def token_of(text: str, source: str) -> str:
    """A token as it was kept or pasted, without white space around it; `source` says where it was read.

    Raises ValueError, without a piece of the token, where it can't be one.
    """
    token = text.strip()
    for place, character in enumerate(token, start=1):
        if not "!" <= character <= "~":
            raise ValueError(
                f"{source} is no token: its character {place} of {len(token)} is {_named(character)}. "
                "Copy it again: letters, digits, _ and - alone"
            )
    return token


def _named(character: str) -> str:
    if character.isspace() or not character.isprintable():
        return f"white space or a control character (U+{ord(character):04X})"
    return "outside ASCII"
