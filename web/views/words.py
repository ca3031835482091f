"""Figures and moments as people read them."""

from collections.abc import Sequence
from datetime import datetime

from markupsafe import Markup

from registry.contract.routes import BASIS_POINTS


def percent(share: int) -> str:
    """Basis points: 2500 → `25 %`, never broken over two lines."""
    return f"{share * 100 / BASIS_POINTS:g}\N{NO-BREAK SPACE}%"


def span(seconds: float) -> str:
    """A duration: `40 s`, `12 min`, `3.5 h`, `2 d`."""
    if seconds < 120:
        return f"{max(seconds, 0):.0f} s"
    if seconds < 7200:
        return f"{seconds / 60:.0f} min"
    if seconds < 172_800:
        return f"{seconds / 3600:.1f} h"
    return f"{seconds / 86_400:.0f} d"


def plain_clock(moment: datetime, now: datetime) -> str:
    """`15:28:56Z`, with its date where that is not today's."""
    return f"{moment:%H:%M:%SZ}" if moment.date() == now.date() else f"{moment:%d %b %Y %H:%M:%SZ}"


def clock(moment: datetime, now: datetime) -> Markup:
    """The same as an element; the script adds the reader's own time."""
    return Markup('<time datetime="{}">{}</time>').format(moment.isoformat(), plain_clock(moment, now))


def milliseconds(value: float) -> str:
    """`87 ms`, `1.24 s`."""
    return f"{value:.0f} ms" if value < 1000 else f"{value / 1000:.2f} s"


def figure(value: float) -> str:
    """A measured value, with three digits that matter."""
    if abs(value) >= 1e6:
        mantissa, _, exponent = f"{value:.1e}".partition("e")
        return f"{mantissa}·10^{int(exponent)}"
    return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.3g}"


def listed(names: Sequence[str], most: int = 4) -> str:
    """`a, b and c`; beyond `most` names the rest is counted."""
    if len(names) > most:
        return f"{', '.join(names[:most])} and {len(names) - most} more"
    if len(names) < 2:
        return "".join(names)
    return f"{', '.join(names[:-1])} and {names[-1]}"


def nodes(count: int) -> str:
    return f"{count} node{'' if count == 1 else 's'}"
