"""Addresses in sentences, without what they sign in with."""

import pytest

from registry.client import Unreachable
from registry.client.secrets import masked, redacted


@pytest.mark.parametrize(
    ("url", "told"),
    [
        ("http://127.0.0.1:8080", "http://127.0.0.1:8080"),
        ("postgresql://ann:SECRET@h:5432/x", "postgresql://***@h:5432/x"),
        ("postgresql+psycopg://ann:SE/CR@ET@h/x", "postgresql+psycopg://***@h/x"),
        ("mysql://ann:SECRET@h/x", "mysql://***@h/x"),
        ("postgres//ann:SECRET@h/x", "***@h/x"),
        ("ann:SECRET@h/x", "***@h/x"),
        ("redis://:SECRET@h:6379/0", "redis://***@h:6379/0"),
        ("postgresql://h/x?user=ann&password=SECRET&a=b", "postgresql://h/x?user=ann&password=***&a=b"),
        ("host=h password='SEC RET' dbname=x", "host=h password=*** dbname=x"),
    ],
)
def test_an_address_is_told_without_what_it_signs_in_with(url: str, told: str) -> None:
    assert masked(url) == told


def test_what_a_driver_says_of_an_address_tells_no_piece_of_it() -> None:
    url = "redis://:part/SECRETPW@h:6379/0"
    assert redacted("Port could not be cast to integer value as 'part'", url).endswith("as '***'")
    assert redacted(f'missing "=" after "{url}"', url) == 'missing "=" after "redis://***@h:6379/0"'
    assert redacted("invalid token SECRETPW", url) == "invalid token ***"


def test_a_registry_that_is_away_is_told_without_password() -> None:
    assert "SECRET" not in str(Unreachable("http://ann:SECRET@h", "refused"))
