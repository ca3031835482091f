"""Names that no alias may have, because people and other clients read them as something else. Pure."""

import re

_NUMBER = re.compile(r"v?[0-9]+")


def alias_fault(name: str) -> str | None:
    """Why this name can't be given, or None."""
    if name == "latest":
        return "latest is reserved: it reads as the newest version, which an alias does not follow"
    if _NUMBER.fullmatch(name):
        return f"{name} is reserved: it reads as a version's number"
    return None
