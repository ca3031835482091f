"""Routing units: what is wrong with one that a person asks for. Pure."""

import re
from collections.abc import Iterator

from registry.contract.routes import RoutingUnit

# A field name of RFC 9110.
_TOKEN = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]{1,128}")


def unit_faults(unit: RoutingUnit) -> tuple[str, ...]:
    """Sentences that say why requests can't be routed so."""
    return tuple(_faults(unit))


def _faults(unit: RoutingUnit) -> Iterator[str]:
    if unit.kind == "key" and unit.header is None:
        yield "the unit `key` needs the header that the key is taken from, for example x-user-id"
    elif unit.kind == "request" and unit.header is not None:
        yield "the unit `request` takes no header; name the unit `key` to route by one"
    elif unit.header is not None and not _TOKEN.fullmatch(unit.header):
        yield f"{unit.header!r} is no header's name; it has letters, digits and hyphens, at most 128 of them"
