"""Shares of the traffic as one bar: stable dashed blue, canary solid orange, anything else grey."""

from collections.abc import Sequence

from markupsafe import Markup

from registry.contract.routes import BASIS_POINTS
from web.charts.svg import at, chart
from web.views.shares import Segment

HEIGHT = 16


def share_bar(name: str, title: str, segments: Sequence[Segment] | None) -> Markup:
    """`segments` None: unknown, drawn as an empty dotted frame."""
    if segments is None:
        body = Markup('<rect class="nothing" x="1" y="1" width="99.5%" height="{}" rx="3"/>').format(
            HEIGHT - 2
        )
        return chart(name, title, "not known", HEIGHT, body, "sharebar")
    parts, start = [], 0
    for segment in segments:
        end = start + segment.share
        parts.append(
            Markup('<line class="share-{}" x1="{}" x2="{}" y1="{y}" y2="{y}" stroke-width="{h}"/>').format(
                segment.role, at(start / BASIS_POINTS), at(end / BASIS_POINTS), y=HEIGHT / 2, h=HEIGHT
            )
        )
        if start:
            parts.append(
                Markup('<line class="cut" x1="{x}" x2="{x}" y1="0" y2="{h}"/>').format(
                    x=at(start / BASIS_POINTS), h=HEIGHT
                )
            )
        start = end
    told = ", ".join(map(str, segments)) or "no traffic"
    return chart(name, title, told, HEIGHT, Markup("").join(parts), "sharebar")
