"""The published life cycles are those of the move tables."""

from pathlib import Path

from registry.lifecycle import diagrams

PAGE = Path(__file__).resolve().parents[3] / "docs" / "lifecycle.md"


def test_the_page_is_generated_from_the_tables() -> None:
    assert PAGE.read_text() == diagrams.page(), "python -m registry.lifecycle.diagrams > docs/lifecycle.md"
