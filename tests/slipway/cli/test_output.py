"""What is said of files on their way, where there is no terminal to draw on."""

import pytest

from slipway.cli.output import Bars


def test_each_file_is_told_once_with_what_it_took(capsys: pytest.CaptureFixture[str]) -> None:
    bars = Bars(None, "sent")
    for done in (0, 4, 10, 10):
        bars("whole.bin", done, 10)
    for done in (6, 8, 10):
        bars("resumed.bin", done, 10)
    assert capsys.readouterr().err.splitlines() == [
        "sent whole.bin (10 bytes)",
        "sent resumed.bin (4 of 10 bytes, the rest was there)",
    ]
