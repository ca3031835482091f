"""What is sealed with a secret is read with that secret alone."""

from hypothesis import given
from hypothesis import strategies as st

from registry.edge.sealing import NONCE_BYTES, seal, unseal


@given(st.binary(max_size=200), st.text(max_size=20), st.text(max_size=20))
def test_only_the_same_secret_reads_it(content: bytes, secret: str, other: str) -> None:
    sealed = seal(secret, content)
    assert unseal(secret, sealed) == content
    assert other == secret or unseal(other, sealed) is None


@given(st.binary(min_size=1, max_size=50), st.data())
def test_a_changed_byte_is_noticed(content: bytes, data: st.DataObject) -> None:
    sealed = bytearray(seal("s", content))
    sealed[data.draw(st.integers(0, len(sealed) - 1))] ^= data.draw(st.integers(1, 255))
    assert unseal("s", bytes(sealed)) is None


def test_the_same_bytes_never_look_the_same() -> None:
    content = b"https://store/part?X-Amz-Signature=abc" * 100
    one, other = seal("s", content), seal("s", content)
    assert one[NONCE_BYTES:] != other[NONCE_BYTES:]
    assert b"Signature" not in one


def test_what_is_too_short_is_no_answer() -> None:
    assert unseal("s", b"") is None
    assert unseal("s", b"x" * 20) is None
