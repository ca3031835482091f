"""One node's way back in time: from the request to switched to drained."""

from markupsafe import Markup

from web.charts.svg import at, chart
from web.views.receipt import Row

HEIGHT = 22
# Room for half a mark at both ends.
LEFT, RIGHT = 0.02, 0.97


def lane(row: Row, scale_ms: float) -> Markup:
    """Hollow: switched; filled: drained. Dashed to the end: still awaited."""
    y = HEIGHT / 2

    def x(ms: float) -> str:
        return at(LEFT + (RIGHT - LEFT) * ms / scale_ms)

    reached = max(row.switched or 0.0, row.drained or 0.0)
    parts = [
        Markup('<line class="lane-done" x1="{}" x2="{}" y1="{y}" y2="{y}"/>').format(x(0), x(reached), y=y)
    ]
    if row.drained is None:
        parts.append(
            Markup('<line class="lane-wait" x1="{}" x2="{}" y1="{y}" y2="{y}"/>').format(
                x(reached), x(scale_ms), y=y
            )
        )
    parts.append(Markup('<line class="lane-start" x1="{x}" x2="{x}" y1="4" y2="18"/>').format(x=x(0)))
    if row.switched is not None:
        parts.append(
            Markup('<circle class="lane-switched" cx="{}" cy="{}" r="5"/>').format(x(row.switched), y)
        )
    if row.drained is not None:
        parts.append(Markup('<circle class="lane-drained" cx="{}" cy="{}" r="5"/>').format(x(row.drained), y))
    told = f"switched {row.switched_text}, drained {row.drained_text} after the request"
    return chart(f"lane-{row.node}", f"{row.name}: {row.word}", told, HEIGHT, Markup("").join(parts), "lane")
