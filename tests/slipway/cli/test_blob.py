"""Spans of time as people write them for the collector."""

import pytest

from slipway.cli.blob import seconds


@pytest.mark.parametrize(("text", "value"), [("90s", 90), ("15m", 900), ("12h", 43_200), ("7d", 604_800)])
def test_spans_of_time(text: str, value: int) -> None:
    assert seconds(text) == value


@pytest.mark.parametrize("text", ["", "h", "7", "-1h", "1.5h", "1w"])
def test_other_words_are_refused(text: str) -> None:
    with pytest.raises(ValueError, match="write for example 12h or 7d"):
        seconds(text)
