"""A visitor's client."""

import httpx
import pytest

from registry.client import ApiError
from web.registry import Registry, SignedOut


@pytest.mark.parametrize("secret", ["slp_SECRETé", "slp_SECRET\rx"])
def test_what_can_not_be_a_secret_is_signed_out_with_a_reason(secret: str) -> None:
    registry = Registry(httpx.ASGITransport(lambda *_: None), "http://registry", 1)  # type: ignore[arg-type, return-value]
    with pytest.raises(SignedOut) as told:
        registry.client(secret, "request")
    assert isinstance(told.value.__cause__, ApiError)
    assert "is no token" in str(told.value.__cause__)
    assert "SECRET" not in str(told.value.__cause__)
