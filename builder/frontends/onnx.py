"""ONNX as it is: the file is checked and its external data, if any, is brought into the one file."""

import posixpath
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from google.protobuf.message import DecodeError

from builder.steps.step import Refused

if TYPE_CHECKING:
    import onnx

MODEL_NAME = "model.onnx"
# Protocol buffers end at 2 GiB; larger models need a format of several files, which engines don't have.
LARGEST_BYTES = (1 << 31) - (1 << 20)

_OTHER_FORMATS = (
    (b"PK\x03\x04", "a zip archive (a PyTorch checkpoint or a TorchScript file looks so)"),
    (b"\x80\x02", "a Python pickle"),
    (b"\x80\x03", "a Python pickle"),
    (b"\x80\x04", "a Python pickle"),
    (b"\x80\x05", "a Python pickle"),
    (b"\x89HDF", "an HDF5 file (Keras weights look so)"),
    (b"\x1f\x8b", "a gzip archive"),
    (b"version https://git-lfs", "a Git LFS pointer: fetch the real file with `git lfs pull`"),
)


@dataclass(frozen=True, slots=True)
class ImportedModel:
    """`external`: names of the data files that went into the one file."""

    opset: int
    producer: str
    nodes: int
    external: tuple[str, ...]


def choose_model(paths: tuple[str, ...]) -> str:
    """The model among a version's files. Raises Refused when there is none, or no single one."""
    found = [path for path in paths if path.endswith(".onnx")]
    named = [path for path in found if posixpath.basename(path) == MODEL_NAME]
    if len(named) == 1:
        return named[0]
    if len(found) == 1:
        return found[0]
    if not found:
        raise Refused(
            f"the version has no .onnx file (its files: {', '.join(paths)}); "
            "export the model to ONNX and register a version with that file"
        )
    raise Refused(
        f"the version has {len(found)} ONNX files ({', '.join(found)}); name the one to build {MODEL_NAME}"
    )


def import_onnx(folder: Path, model: str, out: Path) -> ImportedModel:
    """Writes `folder/model` to `out` as one file. Raises Refused when it is no model, or not a safe one."""
    import onnx

    from builder.graphs import walks

    source = folder / model
    proto = _read(source, model)
    external = _external_files(proto, source.parent)
    if not external:
        out.write_bytes(source.read_bytes())
    else:
        total = source.stat().st_size + sum((source.parent / name).stat().st_size for name in external)
        if total > LARGEST_BYTES:
            raise Refused(
                f"{model} and its external data are {total} bytes, and an ONNX engine is one file of at most "
                f"{LARGEST_BYTES}; reduce the weights' precision before export"
            )
        onnx.load_external_data_for_model(proto, str(source.parent))
        onnx.save(proto, str(out))
    return ImportedModel(
        opset=walks.opset(proto),
        producer=" ".join(part for part in (proto.producer_name, proto.producer_version) if part),
        nodes=sum(1 for _ in walks.nodes(proto)),
        external=external,
    )


def _read(path: Path, name: str) -> "onnx.ModelProto":
    from builder.graphs import walks

    with path.open("rb") as stream:
        head = stream.read(32)
    other = next((text for magic, text in _OTHER_FORMATS if head.startswith(magic)), None)
    if other is not None:
        raise Refused(
            f"{name} is not an ONNX file but {other}; export the model to ONNX and register that file"
        )
    try:
        proto = walks.read_graph(path)
    except DecodeError as error:
        raise Refused(
            f"{name} is not an ONNX file, or was cut off ({path.stat().st_size} bytes: {error}); "
            "check it with `python -m onnx.checker`, export it again and register that file"
        ) from error
    if not proto.graph.node or not proto.opset_import:
        raise Refused(
            f"{name} is not an ONNX model: it has {len(proto.graph.node)} nodes and "
            f"{len(proto.opset_import)} operator sets; export the model to ONNX and register that file"
        )
    return proto


def _external_files(proto: "onnx.ModelProto", folder: Path) -> tuple[str, ...]:
    """Names of the external data files, each proven to be an ordinary file inside `folder`, long enough."""
    from onnx.external_data_helper import ExternalDataInfo, uses_external_data

    from builder.graphs import walks

    names: dict[str, None] = {}
    for tensor in walks.tensors(proto):
        if not uses_external_data(tensor):
            continue
        info = ExternalDataInfo(tensor)
        location = str(info.location)
        parts = location.replace("\\", "/").split("/")
        if not location or location.startswith(("/", "\\")) or ":" in parts[0] or ".." in parts:
            raise Refused(
                f"tensor {tensor.name!r} has its data at {location!r}, outside of the version's folder; "
                "save the model with its external data beside it, under a plain file name"
            )
        path = folder / location
        if not path.is_file() or not path.resolve().is_relative_to(folder.resolve()):
            raise Refused(
                f"tensor {tensor.name!r} has its data in {location!r}, which is not among the version's "
                "files; "
                "register that file too, beside the model"
            )
        needed = int(info.offset or 0) + int(info.length or 0)
        if path.stat().st_size < needed:
            raise Refused(
                f"tensor {tensor.name!r} needs {needed} bytes of {location!r}, which has "
                f"{path.stat().st_size}; the file was cut off: register it again"
            )
        names[location] = None
    return tuple(names)
