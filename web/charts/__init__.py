"""SVG drawn in Python: one form per file."""
