import pytest
from hypothesis import given
from hypothesis import strategies as st

from registry.contract.pipeline import ByteWindow, PipelineSpec
from registry.contract.versions import Dtype, Signature, TensorSpec
from serving.pipeline.errors import PipelineMismatch
from serving.pipeline.processing import pre

PAD = 256


def signature(tokens: int | str = 8, dtype: Dtype = Dtype.INT32) -> Signature:
    return Signature(inputs=(TensorSpec(name="bytes", dtype=dtype, shape=("batch", tokens)),), outputs=())


def window(raw: bytes, head: int = 4, tail: int = 4, block: int = 10, offset: int = 0) -> list[int]:
    spec = ByteWindow(output="bytes", head=head, tail=tail, block=block, pad=PAD, offset=offset)
    tensors = pre(PipelineSpec(pre=(spec,)), signature(head + tail))(raw)
    assert tensors["bytes"].shape == (1, head + tail)
    assert tensors["bytes"].dtype.name == "int32"
    return tensors["bytes"][0].tolist()


def tokens(*parts: bytes | int) -> list[int]:
    """Bytes as themselves, a number as so many paddings."""
    return [token for part in parts for token in (part if isinstance(part, bytes) else [PAD] * part)]


@pytest.mark.parametrize(
    ("raw", "wanted"),
    [
        (b"", tokens(8)),
        (b"a", tokens(b"a", 3, 3, b"a")),
        (b"abcd", tokens(b"abcd", b"abcd")),
        (b"abcde", tokens(b"abcd", b"bcde")),
        (b"abcdefghijkl", tokens(b"abcd", b"ijkl")),
        # Stripped at the outer side only: the head keeps what trails, the tail what leads.
        (b"  ab  ", tokens(b"ab  ", b"  ab")),
        (b" \t\n\r\x0b\x0cab", tokens(b"ab", 2, b"\x0b\x0cab")),
        # What Python's bytes do not call white space stays.
        (b"\xa0\x85\x1c\x00", tokens(b"\xa0\x85\x1c\x00", b"\xa0\x85\x1c\x00")),
        # Only a block is read at each end, so white space that fills it leaves nothing.
        (b" " * 10 + b"ab", tokens(4, b"  ab")),
        (b"ab" + b" " * 10, tokens(b"ab  ", 4)),
        (b" " * 9 + b"abcdefgh" + b" " * 9, tokens(b"a", 3, 3, b"h")),
        (b" " * 30, tokens(8)),
    ],
)
def test_cuts_both_ends(raw: bytes, wanted: list[int]) -> None:
    assert window(raw) == wanted


@pytest.mark.parametrize(
    ("raw", "offset", "wanted"),
    [
        (b"abcdefghijkl", 1, tokens(b"bcde", b"jkl", 1)),
        (b"abcdefghijkl", 3, tokens(b"defg", b"l", 3)),
        (b"abcdefghijkl", 100, tokens(8)),
        (b" abcdef ", 1, tokens(b"bcde", b"def", 1)),
        (b"ab", 1, tokens(b"b", 3, 1, b"ab", 1)),
        (b"", 1, tokens(8)),
        # The block bounds what the head may reach.
        (b"abcdefghijkl", 8, tokens(b"ij", 2, 4)),
    ],
)
def test_an_offset_cuts_both_windows_later(raw: bytes, offset: int, wanted: list[int]) -> None:
    assert window(raw, offset=offset) == wanted


@pytest.mark.parametrize(("head", "tail"), [(0, 4), (4, 0), (0, 0)])
def test_either_window_may_be_left_out(head: int, tail: int) -> None:
    assert window(b"abcdefgh", head, tail) == tokens(b"abcd"[:head], b"efgh"[:tail])


@given(
    st.binary(max_size=40) | st.text(" \n\tab", max_size=40).map(str.encode),
    st.integers(0, 6),
    st.integers(0, 6),
    st.integers(1, 20),
    st.integers(0, 8),
)
def test_agrees_with_the_definition_position_by_position(
    raw: bytes, head: int, tail: int, block: int, offset: int
) -> None:
    def token(stream: bytes, position: int) -> int:
        return stream[position] if 0 <= position < len(stream) else PAD

    first, last = raw[:block].lstrip(), raw[-block:].rstrip()
    wanted = [token(first, offset + i) for i in range(head)]
    wanted += [token(last, len(last) - tail + offset + i) for i in range(tail)]
    assert window(raw, head, tail, block, offset) == wanted


@pytest.mark.parametrize(
    ("made", "wanted"),
    [
        (signature(9), r"8 tokens .* takes 9"),
        (signature(8, Dtype.INT64), r"INT32\[rows, 8\], but 'bytes' is INT64"),
        (Signature(inputs=(), outputs=()), "no input of the signature"),
    ],
)
def test_a_window_that_does_not_fit_the_signature_is_refused(made: Signature, wanted: str) -> None:
    spec = PipelineSpec(pre=(ByteWindow(output="bytes", head=4, tail=4, block=8, pad=PAD),))
    with pytest.raises(PipelineMismatch, match=wanted):
        pre(spec, made)


def test_a_named_number_of_tokens_is_taken() -> None:
    spec = PipelineSpec(pre=(ByteWindow(output="bytes", head=1, tail=1, block=8, pad=PAD),))
    assert pre(spec, signature("tokens"))(b"xy")["bytes"].tolist() == [[ord("x"), ord("y")]]
