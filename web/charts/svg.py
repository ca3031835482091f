"""What every chart has in common: it says in words what it shows."""

from markupsafe import Markup


def chart(name: str, title: str, description: str, height: int, body: Markup, css: str) -> Markup:
    """`name` is unique on its page. Widths inside are percentages, so that a chart reflows."""
    return Markup(
        '<svg class="chart {css}" width="100%" height="{height}" role="img" '
        'aria-labelledby="{name}-title {name}-desc">'
        '<title id="{name}-title">{title}</title><desc id="{name}-desc">{description}</desc>{body}</svg>'
    ).format(css=css, height=height, name=name, title=title, description=description, body=body)


def at(part: float) -> str:
    """0…1 → a percentage with two digits."""
    return f"{part * 100:.2f}%"
