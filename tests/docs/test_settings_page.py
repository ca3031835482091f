"""The published settings are those of the types, and each one says what it is."""

from pathlib import Path

from tests.docs import settings_page

PAGE = Path(__file__).resolve().parents[2] / "docs" / "settings.md"


def test_the_page_is_generated_from_the_types() -> None:
    assert PAGE.read_text() == settings_page.page(), "python -m tests.docs.settings_page > docs/settings.md"


def test_every_setting_is_explained() -> None:
    silent = [
        f"{title}: {name}"
        for title, _, settings in settings_page.PROCESSES
        for name, field in settings.model_fields.items()
        if not field.description
    ]
    assert silent == []
