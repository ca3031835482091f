"""What a model's own files say of it: its flavours, its signature, and the contract that follows. Pure.

`MLmodel` is YAML; read is the part of it that MLflow writes there: nested mappings of scalars. Lists are
skipped, and so is what is not understood: a model that can't be read is kept, and not servable.
"""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

import orjson

from registry.contract import asked
from registry.contract.versions import (
    BatchRule,
    Dtype,
    Framework,
    Signature,
    TensorSpec,
    VersionContract,
)
from registry.lifecycle.contracts import contract_faults

MLMODEL = "MLmodel"
CONTRACT_FILE = "slipway.json"
# Small files whose text is kept beside them, because it says what the model is.
TELLING = (MLMODEL, CONTRACT_FILE)
MOST_TEXT = 256 * 1024

NOTHING = VersionContract(signature=Signature(inputs=(), outputs=()))

_FRAMEWORKS = {
    "onnx": Framework.ONNX,
    "pytorch": Framework.PYTORCH,
    "tensorflow": Framework.TENSORFLOW,
    "keras": Framework.TENSORFLOW,
    "lightgbm": Framework.LIGHTGBM,
    "sklearn": Framework.SKLEARN,
    "xgboost": Framework.XGBOOST,
}
_DTYPES = {
    "bool": Dtype.BOOL,
    "uint8": Dtype.UINT8,
    "int8": Dtype.INT8,
    "int16": Dtype.INT16,
    "int32": Dtype.INT32,
    "int64": Dtype.INT64,
    "float16": Dtype.FP16,
    "float32": Dtype.FP32,
    "float64": Dtype.FP64,
    "str": Dtype.BYTES,
    "object": Dtype.BYTES,
}
_LINE = re.compile(r"(?P<indent> *)(?P<key>[^\s:#'\"-][^:]*):(?:\s+(?P<value>.*))?$")
_DEEPEST = 8


@dataclass
class Node:
    """A mapping: scalars as texts, and mappings below it."""

    texts: dict[str, str] = field(default_factory=dict)
    nodes: dict[str, "Node"] = field(default_factory=dict)

    def below(self, key: str) -> "Node":
        return self.nodes.get(key) or Node()


@dataclass(frozen=True)
class Described:
    """`reason`: why there is no contract; empty where there is one."""

    framework: Framework
    contract: VersionContract
    run_id: str | None
    reason: str


class _Unservable(Exception):
    pass


def read(text: str) -> Node:
    """The mappings of an MLmodel file."""
    root = Node()
    open_nodes: list[tuple[int, Node]] = [(-1, root)]
    for indent, key, value in _entries(text):
        while open_nodes[-1][0] >= indent:
            open_nodes.pop()
        parent = open_nodes[-1][1]
        if value is not None:
            parent.texts[key] = value
        elif len(open_nodes) <= _DEEPEST:
            made = Node()
            parent.nodes[key] = made
            open_nodes.append((indent, made))
    return root


def _entries(text: str) -> Iterator[tuple[int, str, str | None]]:
    """(indent, key, value) of each line `key: value`; None: a mapping may follow."""
    lines = iter(text.splitlines())
    for line in lines:
        found = _LINE.match(line)
        if found is None:
            continue
        value = (found["value"] or "").strip()
        if value[:1] in ("'", '"'):
            value = _quoted(value, lines)
        yield len(found["indent"]), found["key"].strip(), value or None


def _quoted(value: str, lines: Iterator[str]) -> str:
    """A quoted scalar, which may go on over several lines."""
    mark = value[0]
    parts = [value[1:]]
    while not _closed(parts[-1], mark):
        following = next(lines, None)
        if following is None:
            return ""
        parts.append(following.strip())
    if mark == "'":
        return " ".join(parts)[:-1].replace("''", "'")
    # A backslash at the end of a line joins it to the next, and one at the beginning keeps a space there.
    joined = ""
    for part in parts:
        joined = joined[:-1] + part.removeprefix("\\") if joined.endswith("\\") else f"{joined} {part}"
    try:
        return str(orjson.loads(f'"{joined.strip()[:-1]}"'))
    except orjson.JSONDecodeError:
        return ""


def _closed(part: str, mark: str) -> bool:
    if mark == "'":
        return (len(part) - len(part.rstrip("'"))) % 2 == 1
    return part.endswith('"') and (len(part) - 1 - len(part[:-1].rstrip("\\"))) % 2 == 0


def describe(texts: Mapping[str, str], paths: list[str]) -> Described:
    """`texts`: the telling files, by path in the version; `paths`: all its files."""
    model = read(texts.get(MLMODEL, ""))
    flavours = model.below("flavors")
    names = (*flavours.nodes, *flavours.texts)
    framework = next((_FRAMEWORKS[name] for name in names if name in _FRAMEWORKS), Framework.PYFUNC)
    run_id = model.texts.get("run_id")
    try:
        contract = _contract(texts, model, framework, names)
        faults = contract_faults(contract, paths)
        if faults:
            raise _Unservable(f"its contract does not fit: {'; '.join(faults[:3])}")
    except _Unservable as error:
        return Described(framework, NOTHING, run_id, f"not servable: {error}")
    return Described(framework, contract, run_id, "")


def _contract(
    texts: Mapping[str, str], model: Node, framework: Framework, flavours: tuple[str, ...]
) -> VersionContract:
    """From the contract file, else for ONNX from the signature. Raises _Unservable."""
    given = next((text for path, text in texts.items() if path.endswith(CONTRACT_FILE)), None)
    if given is not None:
        try:
            return asked.read(VersionContract, given.encode())
        except asked.Misread as error:
            raise _Unservable(f"{CONTRACT_FILE} is no contract: {error.errors[0]}") from error
    if not flavours:
        raise _Unservable(f"there is no {MLMODEL} file that names a flavour")
    if framework is not Framework.ONNX:
        raise _Unservable(
            f"a signature alone serves only the flavour onnx, this has {', '.join(flavours)}; "
            f"log it with a contract file {CONTRACT_FILE}"
        )
    signature = model.below("signature")
    inputs = _tensors("inputs", signature.texts.get("inputs", ""))
    outputs = _tensors("outputs", signature.texts.get("outputs", ""))
    axes = {tensor.shape[0] for tensor in (*inputs, *outputs) if tensor.shape}
    batch = BatchRule() if all(isinstance(axis, str) for axis in axes) else BatchRule(max_rows=1)
    return VersionContract(signature=Signature(inputs=inputs, outputs=outputs), batch=batch)


def _tensors(side: str, coded: str) -> tuple[TensorSpec, ...]:
    """MLflow's tensor specifications. Raises _Unservable."""
    try:
        items = orjson.loads(coded)
    except orjson.JSONDecodeError:
        items = None
    if not isinstance(items, list) or not items:
        raise _Unservable(f"its signature has no {side}")
    return tuple(_tensor(side, item) for item in items)


def _tensor(side: str, item: object) -> TensorSpec:
    spec = item.get("tensor-spec") if isinstance(item, dict) else None
    if not isinstance(item, dict) or not isinstance(spec, dict):
        raise _Unservable(f"the {side} of its signature are columns; serving needs tensors")
    name, dtype, shape = item.get("name"), _DTYPES.get(str(spec.get("dtype"))), spec.get("shape")
    if not isinstance(name, str) or not name:
        raise _Unservable(f"a tensor of the {side} of its signature has no name")
    if dtype is None or not isinstance(shape, list) or not all(isinstance(size, int) for size in shape):
        raise _Unservable(f"the {side} {name!r} of its signature has a type or shape that can't be served")
    axes = tuple(_axis(name, index, size) for index, size in enumerate(shape))
    return TensorSpec(name=name, dtype=dtype, shape=axes)


def _axis(name: str, index: int, size: int) -> int | str:
    """-1 is whatever size: the batch at the first place, an axis of its own elsewhere."""
    if size >= 0:
        return size
    return "batch" if index == 0 else f"{name}_{index}"
