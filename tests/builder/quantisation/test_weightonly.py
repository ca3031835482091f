"""Weights by groups: what the bits stand for is near what they were made of."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from builder.quantisation.weightonly import Bits, group


@given(
    rows=st.integers(1, 70),
    columns=st.integers(1, 5),
    bits=st.sampled_from([4, 8]),
    block=st.sampled_from([16, 32]),
    seed=st.integers(0, 99),
)
def test_no_weight_is_further_off_than_half_a_level_and_the_zero_point_s_rounding(
    rows: int, columns: int, bits: Bits, block: int, seed: int
) -> None:
    matrix = np.random.default_rng(seed).standard_normal((rows, columns)).astype(np.float32)
    found = group(matrix, bits, block)
    assert found.weights.shape == (columns, -(-rows // block), block * bits // 8)
    off = np.abs(found.values() - matrix)
    scale = np.repeat(found.scales.T, block, axis=0)[:rows]
    assert (off <= 1.01 * scale).all()
    assert np.median(off / scale) <= 0.5


def test_a_group_of_zeros_and_a_group_of_one_sign() -> None:
    matrix = np.concatenate([np.zeros((16, 1)), np.full((16, 1), 3.0)]).astype(np.float32)
    assert np.allclose(group(matrix, 4, 16).values(), matrix)


@pytest.mark.parametrize(("bits", "share"), [(8, 0.30), (4, 0.17)])
def test_how_small_it_is(bits: Bits, share: float) -> None:
    matrix = np.ones((256, 64), np.float32)
    found = group(matrix, bits, 32)
    assert found.weights.nbytes + found.scales.nbytes + found.zeros.nbytes < share * matrix.nbytes
