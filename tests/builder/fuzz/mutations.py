"""Files of models, changed at random: broken bytes, and sound files that say something absurd."""

import io
import random
import re
import zipfile
from collections.abc import Callable
from pathlib import Path

import onnx
from google.protobuf.message import DecodeError

Mutation = Callable[[bytes, random.Random], bytes]

LARGEST = b"\xff\xff\xff\xff\xff\xff\xff\xff\x7f"
NUMBERS = ("nan", "inf", "-1", "0", "1e308", "-1e308", "4294967296", "99999999999999999999", "", "x")
OPERATORS = (
    "Loop",
    "If",
    "Scan",
    "Reshape",
    "Gather",
    "Resize",
    "NoSuchOperator",
    "Softmax",
    "Cast",
    "Split",
)


def _flip(content: bytes, chance: random.Random) -> bytes:
    changed = bytearray(content)
    for _ in range(chance.choice((1, 1, 4, 32))):
        changed[chance.randrange(len(changed))] ^= 1 << chance.randrange(8)
    return bytes(changed)


def _cut_off(content: bytes, chance: random.Random) -> bytes:
    return content[: chance.randrange(len(content))]


def _moved(content: bytes, chance: random.Random) -> bytes:
    """A piece is left out, comes twice, or is zeros."""
    begin = chance.randrange(len(content))
    end = min(len(content), begin + chance.randrange(1, 200))
    piece = content[begin:end]
    return content[:begin] + chance.choice((b"", piece * 2, bytes(len(piece)))) + content[end:]


def _absurd_size(content: bytes, chance: random.Random) -> bytes:
    """A length or a number of nine bytes where there was another."""
    at = chance.randrange(len(content))
    return content[:at] + LARGEST + content[at + 1 :]


BYTES: tuple[Mutation, ...] = (_flip, _cut_off, _moved, _absurd_size)


def _words(content: bytes, chance: random.Random) -> bytes:
    """Numbers that no training writes."""
    text = content.decode(errors="replace")
    found = list(re.finditer(r"-?\d+(\.\d+)?(e-?\d+)?", text))
    for place in sorted(
        chance.sample(found, min(len(found), chance.choice((1, 1, 3)))), key=lambda m: -m.start()
    ):
        text = text[: place.start()] + chance.choice(NUMBERS) + text[place.end() :]
    return text.encode()


def _lines(content: bytes, chance: random.Random) -> bytes:
    lines = content.split(b"\n")
    at = chance.randrange(len(lines))
    lines[at : at + 1] = chance.choice(([], [lines[at]] * 2, [chance.choice(lines)]))
    return b"\n".join(lines)


def _graph(content: bytes, chance: random.Random) -> bytes:
    """A sound protocol buffer whose graph is none."""
    model = onnx.load_model_from_string(content)
    graph = model.graph
    node, tensor = chance.choice(list(graph.node)), chance.choice(list(graph.initializer))
    match chance.randrange(10):
        case 0:
            node.op_type = chance.choice(OPERATORS)
        case 1:
            tensor.dims[:] = [chance.choice((-1, 0, 1 << 40, 7)) for _ in tensor.dims]
        case 2:
            tensor.data_type = chance.randrange(30)
        case 3:
            node.input[0] = node.output[0]
        case 4:
            graph.node.remove(node)
        case 5:
            node.domain = chance.choice(("com.microsoft", "ai.onnx.ml", "nowhere"))
        case 6:
            for attribute in node.attribute:
                attribute.i, attribute.type = -(1 << 62), chance.randrange(15)
        case 7:
            model.opset_import[0].version = chance.choice((0, 1, 5, 9999, -1))
        case 8:
            graph.input[0].type.tensor_type.shape.dim[-1].dim_value = chance.choice((-5, 0, 1 << 50))
        case _:
            tensor.data_location = onnx.TensorProto.EXTERNAL
            tensor.external_data.add(
                key="location", value=chance.choice(("../secret", "/etc/passwd", "gone"))
            )
    return model.SerializeToString()


def _within(inner: tuple[Mutation, ...]) -> Mutation:
    """Of one member of a zip archive, which stays a sound archive."""

    def change(content: bytes, chance: random.Random) -> bytes:
        sink = io.BytesIO()
        with zipfile.ZipFile(io.BytesIO(content)) as source, zipfile.ZipFile(sink, "w") as made:
            names = [info for info in source.infolist() if info.file_size]
            victim = chance.choice(names).filename
            for info in source.infolist():
                held = source.read(info)
                made.writestr(
                    info.filename, chance.choice(inner)(held, chance) if info.filename == victim else held
                )
        return sink.getvalue()

    return change


OF_FORMAT: dict[str, tuple[Mutation, ...]] = {
    ".onnx": (*BYTES, _graph, _graph, _graph, _graph),
    ".txt": (*BYTES, _words, _words, _lines, _lines),
    ".skops": (*BYTES, *[_within((*BYTES, _words))] * 4),
    ".pt2": (*BYTES, *[_within((*BYTES, _words))] * 4),
    ".pt": (*BYTES, *[_within(BYTES)] * 4),
}


def mutated(content: bytes, name: str, chance: random.Random) -> bytes:
    """Another file than it was. The same chance gives the same file."""
    kinds = OF_FORMAT.get(Path(name).suffix, BYTES)
    while True:
        try:
            changed = chance.choice(kinds)(content, chance)
        except (DecodeError, ValueError, IndexError, TypeError):
            continue  # this kind doesn't fit this file
        if changed != content:
            return changed
