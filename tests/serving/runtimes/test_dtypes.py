import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from registry.contract.versions import Dtype
from serving.runtimes.dtypes import dtype_name, numpy_dtype, pack_bytes, unpack_bytes
from serving.runtimes.errors import InputError


@pytest.mark.parametrize("dtype", list(Dtype))
def test_every_dtype_has_one_numpy_type(dtype: Dtype) -> None:
    assert dtype_name(numpy_dtype(dtype)) is dtype


def test_what_has_no_name_is_told_apart() -> None:
    assert dtype_name(np.dtype(np.complex64)) is None
    assert dtype_name(np.dtype(">f4")) is None
    assert dtype_name(np.array(["text"]).dtype) is Dtype.BYTES


def test_bytes_are_written_as_the_protocol_says() -> None:
    array = np.array([["ab", b"\x00"]], dtype=np.object_)
    assert pack_bytes(array) == b"\x02\x00\x00\x00ab\x01\x00\x00\x00\x00"


@given(st.lists(st.binary(max_size=20), max_size=8))
def test_bytes_come_back(items: list[bytes]) -> None:
    array = np.empty(len(items), dtype=np.object_)
    array[:] = items
    assert unpack_bytes(pack_bytes(array), [len(items)]).tolist() == items


@pytest.mark.parametrize(
    ("data", "shape"),
    [(b"\x05\x00\x00\x00abc", [1]), (b"\x01\x00", [1]), (b"\x01\x00\x00\x00a", [2]), (b"", [1])],
)
def test_lengths_that_do_not_fit_are_refused(data: bytes, shape: list[int]) -> None:
    with pytest.raises(InputError, match="BYTES data"):
        unpack_bytes(data, shape)
