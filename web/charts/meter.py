"""A value beside its line: how far a gate is. The figures stand next to it, so it is hidden from readers."""

from markupsafe import Markup

from web.charts.svg import at

HEIGHT = 10
LINE = 1 / 1.2


def meter(fill: float, level: str) -> Markup:
    """`fill`: value / threshold, at most 1.2."""
    return Markup(
        '<svg class="chart meter" width="100%" height="{h}" aria-hidden="true" focusable="false">'
        '<rect class="meter-track" width="100%" height="4" y="3" rx="2"/>'
        '<rect class="meter-fill level-{level}" width="{fill}" height="4" y="3" rx="2"/>'
        '<line class="meter-line" x1="{line}" x2="{line}" y1="0" y2="{h}"/></svg>'
    ).format(h=HEIGHT, level=level, fill=at(min(fill / 1.2, 1.0)), line=at(LINE))
