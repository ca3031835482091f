"""Observables come out of every kind of answer."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from registry.contract.pipeline import (
    Argmax,
    Classify,
    Ctc,
    Detect,
    PipelineSpec,
    PostStep,
    Regress,
    Tags,
    Tensors,
    TokenText,
)
from registry.contract.versions import Dtype, Observable, Signature, VersionContract
from serving.pipeline.observe import observe
from serving.pipeline.processing import answer_fields, post
from tests.serving.pipeline.made import outputs, vocabulary

FLAT = outputs(("y", Dtype.FP32, ("batch", 2)))
ONE = outputs(("y", Dtype.FP32, ("batch",)))
DEEP = outputs(("y", Dtype.FP32, ("batch", "n", 6)))
IDS = outputs(("y", Dtype.INT64, ("batch", "n")))


@pytest.mark.parametrize(
    ("step", "signature", "made", "watched", "wanted"),
    [
        (Classify(output="y"), FLAT, [[0.2, 0.8]], "class label", "1"),
        (Classify(output="y"), FLAT, [[0.25, 0.75]], "score score", 0.75),
        (Argmax(output="y", labels=("a", "b")), FLAT, [[5, 3]], "class label", "a"),
        (Tags(output="y"), FLAT, [[0.9, 0.8]], "count count", 2.0),
        (Tags(output="y"), FLAT, [[0.9, 0.8]], "count tags", 2.0),
        (Regress(output="y", scale=2), ONE, [4], "value value", 8.0),
        (Ctc(output="y", tokens=tuple("abcde")), DEEP, [[[0, 1, 0, 0, 0, 0]]], "length text", 1.0),
        (Ctc(output="y", tokens=tuple("abcde")), DEEP, [[[0, 1, 0, 0, 0, 0]]], "score score", 1.0),
        (
            TokenText(output="y", tokenizer="vocabulary", file="vocab.txt"),
            IDS,
            [[4, 5]],
            "length length",
            2.0,
        ),
        (Detect(boxes="y"), DEEP, [[[0, 0, 5, 5, 0.5, 0]]], "count count", 1.0),
        (Detect(boxes="y"), DEEP, [[[0, 0, 5, 5, 0.5, 0]]], "score score", 0.5),
        (Tensors(), FLAT, [[1, 2]], "length y", 2.0),
    ],
)
def test_every_answer_can_be_watched(
    tmp_path: Path, step: PostStep, signature: Signature, made: Any, watched: str, wanted: object
) -> None:
    kind, source = watched.split()
    contract = VersionContract(
        signature=signature,
        pipeline=PipelineSpec(post=(step,)),
        observables=(Observable.model_validate({"name": "it", "kind": kind, "source": source}),),
    )
    dtype = np.int64 if signature is IDS else np.float32
    process = post(contract.pipeline, signature, vocabulary(tmp_path))
    answer = process({"y": np.array(made, dtype)}, 1)[0]
    assert tuple(answer) == answer_fields(contract.pipeline, signature)
    assert observe(contract, answer) == [("it", wanted)]
