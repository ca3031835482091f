"""What a model's own files say of it."""

import pytest

from registry.contract.versions import Dtype, Framework
from registry.mlflow.mlmodel import NOTHING, describe, read
from tests.registry.support import contract

ONNX = """artifact_path: mlflow-artifacts:/0/models/m-1/artifacts
flavors:
  onnx:
    code: null
    data: model.onnx
    onnx_version: 1.20.0
    providers:
    - CUDAExecutionProvider
    - CPUExecutionProvider
  python_function:
    data: model.onnx
    env:
      conda: conda.yaml
      virtualenv: python_env.yaml
    loader_module: mlflow.onnx
    python_version: 3.11.7
metadata: null
mlflow_version: 3.17.2
model_id: m-1
run_id: 0123abcd
signature:
  inputs: '[{"type": "tensor", "tensor-spec": {"dtype": "float32", "shape": [-1, 4]},
    "name": "it''s"}]'
  outputs: "[{\\"type\\": \\"tensor\\", \\"tensor-spec\\": {\\"dtype\\": \\"int64\\",\\
    \\ \\"shape\\": [-1, -1]}, \\"name\\": \\"label\\"}]"
  params: null
utc_time_created: '2026-11-30 20:00:00.000000'
"""


def test_an_onnx_model_with_tensors_is_servable() -> None:
    found = describe({"MLmodel": ONNX}, ["MLmodel", "model.onnx"])
    assert (found.framework, found.reason, found.run_id) == (Framework.ONNX, "", "0123abcd")
    (given,) = found.contract.signature.inputs
    assert (given.name, given.dtype, given.shape) == ("it's", Dtype.FP32, ("batch", 4))
    (made,) = found.contract.signature.outputs
    assert (made.name, made.dtype, made.shape) == ("label", Dtype.INT64, ("batch", "label_1"))


def test_nested_mappings_are_read() -> None:
    flavours = read(ONNX).below("flavors")
    assert sorted(flavours.nodes) == ["onnx", "python_function"]
    assert flavours.below("python_function").below("env").texts["conda"] == "conda.yaml"


def test_a_fixed_batch_axis_is_never_batched() -> None:
    found = describe({"MLmodel": ONNX.replace("[-1, 4]", "[1, 4]").replace("[-1, -1]", "[1, 3]")}, [])
    assert (found.reason, found.contract.batch.max_rows) == ("", 1)


@pytest.mark.parametrize(
    ("text", "framework", "why"),
    [
        ("", Framework.PYFUNC, "there is no MLmodel file"),
        (
            "flavors:\n  python_function:\n    loader_module: x\n",
            Framework.PYFUNC,
            "serves only the flavour onnx",
        ),
        (
            "flavors:\n  sklearn:\n    code: null\n  python_function:\n    a: b\n",
            Framework.SKLEARN,
            "slipway.json",
        ),
        ("flavors:\n  keras: {}\n", Framework.TENSORFLOW, "serves only the flavour onnx"),
        ("flavors:\n  onnx:\n    data: model.onnx\n", Framework.ONNX, "its signature has no inputs"),
        (ONNX.replace("tensor-spec", "column-spec"), Framework.ONNX, "are columns; serving needs tensors"),
        (ONNX.replace('"name": "it\'\'s"', '"x": 1'), Framework.ONNX, "has no name"),
        (ONNX.replace("float32", "complex64"), Framework.ONNX, "a type or shape that can't be served"),
        ("flavors:\n  onnx: 'unclosed\n", Framework.ONNX, "its signature has no inputs"),
        ("\tnot: yaml: at all\n- {", Framework.PYFUNC, "names a flavour"),
    ],
)
def test_what_is_not_servable_says_why(text: str, framework: Framework, why: str) -> None:
    found = describe({"MLmodel": text}, ["MLmodel"])
    assert found.framework is framework
    assert found.contract == NOTHING
    assert why in found.reason


def test_a_contract_file_goes_before_the_signature() -> None:
    texts = {"MLmodel": ONNX, "extra_files/slipway.json": contract().model_dump_json()}
    found = describe(texts, ["MLmodel", "extra_files/slipway.json"])
    assert (found.contract, found.reason) == (contract(), "")


def test_a_contract_file_that_does_not_fit_is_told() -> None:
    texts = {"MLmodel": ONNX, "slipway.json": contract(golden="golden.jsonl").model_dump_json()}
    assert "which is no file of this version" in describe(texts, ["MLmodel", "slipway.json"]).reason
    assert "slipway.json is no contract: signature" in describe({"slipway.json": "{}"}, []).reason
