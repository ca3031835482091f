"""Small real models and data sets, the same ones every time."""

import io
import json
import tarfile
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import onnx
from onnx import TensorProto, helper, numpy_helper

from registry.client.transfer import digest_of
from registry.contract.datasets import Dataset, DatasetKind
from registry.contract.pipeline import Classify, PipelineSpec
from registry.contract.versions import (
    Dtype,
    FileEntry,
    Observable,
    Signature,
    TensorSpec,
    VersionContract,
)

Array = npt.NDArray[Any]

LABELS = ("ant", "bee", "cat", "dog")
SIDE = 12
SIGNATURE = Signature(
    inputs=(TensorSpec(name="image", dtype=Dtype.FP32, shape=("batch", 1, SIDE, SIDE)),),
    outputs=(TensorSpec(name="scores", dtype=Dtype.FP32, shape=("batch", len(LABELS))),),
)
CONTRACT = VersionContract(
    signature=SIGNATURE,
    pipeline=PipelineSpec(post=(Classify(output="scores", labels=LABELS),)),
    observables=(
        Observable(name="label", kind="class", source="label"),
        Observable(name="score", kind="score", source="score"),
    ),
)


def weights(seed: int = 11) -> dict[str, Array]:
    generator = np.random.default_rng(seed)
    return {
        "kernel": generator.standard_normal((8, 1, 3, 3)).astype(np.float32),
        "kernel_bias": generator.standard_normal(8).astype(np.float32) * 0.1,
        "dense": (generator.standard_normal((8, len(LABELS))) * 12).astype(np.float32),
        "dense_bias": np.zeros(len(LABELS), np.float32),
    }


def conv_nodes() -> list[onnx.NodeProto]:
    return [
        helper.make_node("Conv", ["image", "kernel", "kernel_bias"], ["maps"], "conv", kernel_shape=[3, 3]),
        helper.make_node("Relu", ["maps"], ["active"], "relu"),
        helper.make_node("GlobalAveragePool", ["active"], ["pooled"], "pool"),
        helper.make_node("Flatten", ["pooled"], ["flat"], "flatten"),
        helper.make_node("Gemm", ["flat", "dense", "dense_bias"], ["logits"], "dense"),
        helper.make_node("Softmax", ["logits"], ["scores"], "softmax", axis=1),
    ]


def conv_model(
    path: Path,
    *,
    opset: int = 17,
    batch: str | int = "batch",
    nodes: Sequence[onnx.NodeProto] | None = None,
    more: dict[str, Array] | None = None,
) -> Path:
    """image FP32[batch, 1, 12, 12] → scores FP32[batch, 4]."""
    stored = {**weights(), **(more or {})}
    graph = helper.make_graph(
        list(nodes or conv_nodes()),
        "classifier",
        [helper.make_tensor_value_info("image", TensorProto.FLOAT, [batch, 1, SIDE, SIDE])],
        [helper.make_tensor_value_info("scores", TensorProto.FLOAT, [batch, len(LABELS)])],
        [numpy_helper.from_array(array, name) for name, array in stored.items()],
    )
    return save(graph, path, opset)


def save(graph: onnx.GraphProto, path: Path, opset: int = 17) -> Path:
    model = helper.make_model(
        graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=8, producer_name="a test"
    )
    path.parent.mkdir(parents=True, exist_ok=True)
    onnx.save(model, str(path))
    return path


def images(count: int, seed: int = 3) -> list[Array]:
    """Rows of FP32[1, 1, 12, 12]: stripes of four kinds under noise."""
    generator = np.random.default_rng(seed)
    rows = []
    for at in range(count):
        grid = np.zeros((SIDE, SIDE), np.float32)
        grid[at % 3 :: 2 + at % 4, :] = 1 + at % 2
        grid[:, at % 5 :: 3] -= 0.5 * (at % 3)
        noise = generator.standard_normal((SIDE, SIDE)).astype(np.float32)
        rows.append((grid + 0.4 * noise)[np.newaxis, np.newaxis])
    return rows


def answers(model: Path, rows: Sequence[Array]) -> list[str]:
    """The labels that the model itself gives, through the nodes' adapter."""
    from builder.steps.engines import opened

    with opened(model, "ort.cpu") as engine:
        return [LABELS[int(engine.infer({"image": row})["scores"].argmax())] for row in rows]


def raw_image(row: Array) -> bytes:
    return json.dumps({"image": row[0].tolist()}).encode()


def raw_set(
    folder: Path,
    rows: Sequence[bytes],
    labels: Sequence[str | None],
    *,
    name: str = "rows",
    kind: DatasetKind = "validation",
) -> Path:
    """A data set of one tar shard, laid out as the store does it."""
    folder.mkdir(parents=True, exist_ok=True)
    with tarfile.open(folder / "rows.tar", "w") as archive:
        for at, raw in enumerate(rows):
            member = tarfile.TarInfo(f"row-{at:05d}")
            member.size = len(raw)
            archive.addfile(member, io.BytesIO(raw))
    return _described(folder, "rows.tar", [f"row-{at:05d}" for at in range(len(rows))], labels, name, kind)


def tensor_set(
    folder: Path, rows: Sequence[Array], labels: Sequence[str | None], *, name: str = "rows"
) -> Path:
    """A data set of one npz shard with the training side's own tensors."""
    folder.mkdir(parents=True, exist_ok=True)
    keys = [f"row-{at:05d}" for at in range(len(rows))]
    np.savez(folder / "rows.npz", image=np.concatenate(rows), __key__=np.array(keys))
    return _described(folder, "rows.npz", keys, labels, name, "validation")


def _described(
    folder: Path,
    shard: str,
    keys: Sequence[str],
    labels: Sequence[str | None],
    name: str,
    kind: DatasetKind,
) -> Path:
    lines = [json.dumps({"key": key, "label": label}) for key, label in zip(keys, labels, strict=True)]
    (folder / "index.jsonl").write_text("\n".join(lines) + "\n")
    dataset = Dataset(
        name=name,
        version=1,
        kind=kind,
        form="tensors" if shard.endswith("npz") else "raw",
        shards=(entry(folder / shard),),
        index=entry(folder / "index.jsonl"),
        rows=len(keys),
        digest=digest_of(folder / shard),
        provenance="made",
        tags={},
        created_at=datetime(2026, 1, 1, tzinfo=UTC),
        created_by="test",
    )
    (folder / "dataset.json").write_text(dataset.model_dump_json())
    return folder


def entry(path: Path) -> FileEntry:
    return FileEntry(path=path.name, digest=digest_of(path), size=path.stat().st_size)
