"""A PyTorch module from its own source and state-dict: only behind a sandbox's walls."""

import importlib
import json
import sys
from pathlib import Path
from typing import Any

from builder.frontends.request import Request
from builder.steps.step import Refused, first_line

SAFETENSORS_DTYPES = {
    "F64": "float64",
    "F32": "float32",
    "F16": "float16",
    "BF16": "bfloat16",
    "I64": "int64",
    "I32": "int32",
    "I16": "int16",
    "I8": "int8",
    "U8": "uint8",
    "BOOL": "bool",
}


def load(request: Request) -> Any:
    """The module in evaluation mode, with its weights. Raises Refused."""
    assert request.source.entry is not None, "the plan asks for source only where the contract names an entry"
    import torch

    module = _made(request)
    if not isinstance(module, torch.nn.Module):
        raise Refused(
            f"source.entry {request.source.entry!r} makes a {type(module).__name__}; it must be a callable "
            "without arguments that returns a torch.nn.Module"
        )
    state = _weights(request)
    try:
        module.load_state_dict(state)
    except (RuntimeError, TypeError, AttributeError) as error:
        raise Refused(
            f"the weights in {request.main} don't fit the module that {request.source.entry!r} makes: "
            f"{' '.join(str(error).split())[:600]}; register the source that they were trained with"
        ) from error
    return module.eval()


def _made(request: Request) -> Any:
    assert request.source.entry is not None
    name, _, attribute = request.source.entry.partition(":")
    sys.path.insert(0, str(request.folder))
    try:
        return getattr(importlib.import_module(name), attribute)()
    except Exception as error:  # it is foreign code: anything may come
        raise Refused(
            f"source.entry {request.source.entry!r} fails: {type(error).__name__}: {error}; it must be "
            "importable from the version's folder with torch and NumPy alone"
        ) from error
    finally:
        sys.path.remove(str(request.folder))


def _weights(request: Request) -> Any:
    import torch

    try:
        if request.main.endswith(".safetensors"):
            return _safetensors(request.path)
        return torch.load(request.path, map_location="cpu", weights_only=True)
    except Exception as error:  # faults of archives, of restricted pickles, of headers
        raise Refused(
            f"{request.main} holds no state-dict ({first_line(error)}); save it with "
            "torch.save(module.state_dict(), 'model.pt')"
        ) from error


def _safetensors(path: Path) -> dict[str, Any]:
    """Eight bytes with the length of a JSON header, the header, the numbers: nothing is executed."""
    import torch

    content = path.read_bytes()
    length = int.from_bytes(content[:8], "little")
    header = json.loads(content[8 : 8 + length])
    found = {}
    for name, entry in header.items():
        if name == "__metadata__":
            continue
        begin, end = (8 + length + offset for offset in entry["data_offsets"])
        dtype = SAFETENSORS_DTYPES[entry["dtype"]]
        flat = torch.frombuffer(bytearray(content[begin:end]), dtype=getattr(torch, dtype))
        found[name] = flat.reshape(entry["shape"])
    return found
