"""Named columns → numbers, or a refusal that names the column."""

import json
import math
from typing import Any

import numpy as np
import pytest

from registry.contract.pipeline import Column, PipelineSpec, Table
from registry.contract.versions import Dtype, Signature
from serving.pipeline.errors import PipelineMismatch
from serving.pipeline.inputs import check_inputs
from serving.pipeline.processing import missing_as_nan
from serving.runtimes.errors import InputError
from tests.serving.pipeline.made import before, inputs, row

STEP = Table(
    output="x",
    columns=(
        Column(name="age", missing=-1),
        Column(name="income"),
        Column(name="town", categories=("rome", "oslo", "lima"), unknown=9, missing="nan"),
        Column(name="kind", categories=("a", "b"), one_hot=True),
    ),
)
SIGNATURE = inputs(("x", Dtype.FP32, ("batch", 5)))


def made(value: Any, step: Table = STEP, signature: Signature = SIGNATURE) -> Any:
    raw = value if isinstance(value, bytes) else json.dumps(value).encode()
    return row(before(step, signature).prepare(raw), "x")


def test_columns_become_numbers_in_the_contracts_order() -> None:
    found = made({"kind": "b", "town": "oslo", "income": 2.5, "age": 41})
    assert found.dtype == np.float32
    assert found.tolist() == [41, 2.5, 1, 0, 1]


def test_what_is_missing_or_unknown_is_what_training_made_of_it() -> None:
    found = made({"kind": "a", "town": "kiel", "income": 0, "age": None})
    assert found.tolist() == [-1, 0, 9, 1, 0]
    assert math.isnan(made({"kind": "a", "income": 0})[2])


def test_nan_is_an_input_only_where_it_means_something() -> None:
    tensors = before(STEP, SIGNATURE).prepare(b'{"kind": "a", "income": 0}').tensors
    assert check_inputs(SIGNATURE, tensors, missing_as_nan(PipelineSpec(pre=(STEP,)))) == 1
    with pytest.raises(InputError, match="NaN in row 0"):
        check_inputs(SIGNATURE, tensors)


@pytest.mark.parametrize(
    ("value", "said"),
    [
        (b"age=3", "wanted JSON"),
        ([1, 2], "wanted a JSON object"),
        ({"kind": "a"}, "column 'income': wanted a value, got nothing"),
        ({"kind": "a", "incone": 1}, "column 'incone'.*did you mean 'income'"),
        ({"kind": "a", "income": 1, "zzz": 1}, "column 'zzz'.*leave it out"),
        ({"kind": "a", "income": "high"}, "column 'income': wanted a number, got 'high'"),
        ({"kind": "a", "income": [1]}, r"column 'income': wanted a number, got \[1\]"),
        ({"kind": "c", "income": 1}, "column 'kind': wanted one of a, b, got 'c'"),
        ({"kind": 1, "income": 1}, "column 'kind': wanted one of a, b, got 1"),
        ({"kind": "a", "income": 1e300}, "numbers that float32 holds"),
    ],
)
def test_bad_rows_are_refused_by_column(value: Any, said: str) -> None:
    with pytest.raises(InputError, match=said) as refused:
        made(value)
    assert refused.value.mend


def test_whole_numbers_stay_whole() -> None:
    step = Table(output="x", columns=(Column(name="n"),))
    signature = inputs(("x", Dtype.INT8, ("batch", 1)))
    assert made({"n": 7}, step, signature).tolist() == [7]
    for bad in (7.5, 300):
        with pytest.raises(InputError, match="whole numbers of int8"):
            made({"n": bad}, step, signature)


@pytest.mark.parametrize(
    "signature",
    [
        inputs(("x", Dtype.FP32, ("batch", 4))),
        inputs(("x", Dtype.BYTES, ("batch", 5))),
        inputs(("x", Dtype.FP32, (5,))),
    ],
)
def test_a_signature_that_does_not_fit_is_refused(signature: Signature) -> None:
    with pytest.raises(PipelineMismatch, match=r"table makes numbers \[rows, 5\]"):
        before(STEP, signature)
