"""The key of a form: when its page was drawn, and for which route."""

import pytest

from web.press import new_key, read_key


def test_a_key_tells_age_and_generation() -> None:
    drawn = read_key(new_key(42))
    assert drawn is not None
    age, generation = drawn
    assert generation == 42
    assert -5 <= age < 60_000


@pytest.mark.parametrize("key", ["", "x", "12", "zz-7", "12-", "12-x"])
def test_another_key_is_none_of_ours(key: str) -> None:
    assert read_key(key) is None
