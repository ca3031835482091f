"""Golden pairs as a training program writes them, and the golden step on them."""

import base64
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from builder.data.prepare import FILES
from builder.steps import golden
from builder.steps.golden import GoldenParameters
from builder.steps.step import perform
from registry.contract.engines import GoldenReport
from registry.contract.pipeline import PipelineSpec
from registry.contract.versions import Signature

_NAMES = {"float32": "FP32", "int64": "INT64", "int32": "INT32"}


def tensor(values: Any) -> dict[str, object]:
    plain = np.ascontiguousarray(values)
    return {
        "dtype": _NAMES[plain.dtype.name],
        "shape": list(plain.shape),
        "data": base64.b64encode(plain.tobytes()).decode(),
    }


def pair(
    raw: bytes, inputs: Mapping[str, Any], outputs: Mapping[str, Any], answer: object = None
) -> dict[str, Any]:
    return {
        "raw": base64.b64encode(raw).decode(),
        "inputs": {name: tensor(values) for name, values in inputs.items()},
        "outputs": {name: tensor(values) for name, values in outputs.items()},
        "answer": answer,
    }


def proven(
    folder: Path,
    model: Path,
    pairs: Sequence[dict[str, Any]],
    signature: Signature,
    pipeline: PipelineSpec,
    *,
    max_abs: float = 1e-5,
    max_rows: int = 1,
    files: Path | None = None,
) -> GoldenReport:
    path = folder / "golden.jsonl"
    path.write_text("".join(json.dumps(one) + "\n" for one in pairs))
    parameters = GoldenParameters(
        target="ort.cpu",
        signature=signature,
        pipeline=pipeline,
        exact=True,
        max_abs=max_abs,
        min_cosine=0.99,
        max_flip_rate=0.0,
        max_rows=max_rows,
    )
    inputs = {"engine": model, "golden": path, **({FILES: files} if files else {})}
    return perform(golden.STEP, parameters, inputs, folder / "out").report
