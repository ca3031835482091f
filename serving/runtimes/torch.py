"""PyTorch on the CPU, for models that won't convert: programs of torch.export, and TorchScript.

Both formats may bring code along, so that they are loaded behind walls only. An engine is a bundle of one
file with the names that it doesn't keep itself: inputs in the order of the call, outputs in the order of the
answer.
"""

import gc
import io
import time
import warnings
from pathlib import Path
from typing import Any, Literal

import numpy as np

from registry.contract.versions import Signature
from serving.runtimes import walled
from serving.runtimes.bundle import unpack
from serving.runtimes.errors import EngineClosed, NotAllowed, NotAModel, RunFailed, RuntimeMissing
from serving.runtimes.memory import Growth, give_back_free_memory
from serving.runtimes.protocol import (
    Array,
    Device,
    LoadOptions,
    LoadTimes,
    MemoryUse,
    Progress,
    Tensors,
    ignore_progress,
)
from serving.runtimes.tensors import check_tensors

Kind = Literal["torch", "torchscript"]
PARTS: dict[Kind, str] = {"torch": "program.pt2", "torchscript": "script.pt"}
WANTED: dict[Kind, str] = {"torch": "a PyTorch engine", "torchscript": "a TorchScript engine"}


def import_torch() -> Any:
    """The module. Raises RuntimeMissing."""
    try:
        import torch
    except ImportError as error:
        raise RuntimeMissing(
            "torch", "for a worker run `./run worker torch`; or build for ort.cpu, if the model converts"
        ) from error
    return torch


class TorchRuntime:
    def __init__(self, kind: Kind) -> None:
        self._kind: Kind = kind
        self.name: str = kind

    def load(
        self, path: Path, device: Device, options: LoadOptions, progress: Progress | None = None
    ) -> "TorchEngine":
        """The number of threads is one for the whole process: of the last load."""
        if not walled.inside():
            raise NotAllowed(
                f"{self._kind}.{device.kind}",
                "build for ort.cpu or openvino.cpu, or let a worker or node that is set up for it "
                "(SLIPWAY_ALLOW_CODE=true) start the process",
            )
        torch = import_torch()
        tell = progress or ignore_progress
        growth = Growth()
        tell("read")
        started = time.perf_counter()
        wanted = WANTED[self._kind]
        signature, (content,) = unpack(path, wanted, (PARTS[self._kind],))
        read = time.perf_counter()
        tell("deserialise")
        torch.set_num_threads(options.threads)
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                module = self._module(torch, io.BytesIO(content))
        except Exception as error:  # damaged archives, unknown operators: each has its own type
            first = (str(error).strip().splitlines() or [type(error).__name__])[0]
            raise NotAModel(str(path), wanted, first) from error
        times = LoadTimes(read - started, time.perf_counter() - read)
        return TorchEngine(torch, module, signature, times, growth)

    def _module(self, torch: Any, content: io.BytesIO) -> Any:
        if self._kind == "torchscript":
            return torch.jit.load(content, map_location="cpu").eval()
        # Its guards would refuse shapes that the contract allows and parity has tried.
        return torch.export.load(content).module(check_guards=False)


class TorchEngine:
    """A module that is called with tensors in the signature's order."""

    provider_that_ran = "CPU"

    def __init__(
        self, torch: Any, module: Any, signature: Signature, times: LoadTimes, growth: Growth
    ) -> None:
        self.signature = signature
        self.load_times = times
        self._torch = torch
        self._module = module
        self._growth = growth
        self.memory()

    def infer(self, inputs: Tensors) -> dict[str, Array]:
        if self._module is None:
            raise EngineClosed()
        check_tensors(self.signature.inputs, inputs)
        # A copy: torch may write to what it is given, and takes no read-only array.
        given = [self._torch.from_numpy(np.array(inputs[spec.name])) for spec in self.signature.inputs]
        try:
            with self._torch.inference_mode():
                answer = self._module(*given)
        except Exception as error:  # it is the model's own code
            last = (str(error).strip().splitlines() or [type(error).__name__])[-1]
            raise RunFailed(last) from error
        return self._named(answer)

    def _named(self, answer: Any) -> dict[str, Array]:
        names = [spec.name for spec in self.signature.outputs]
        if isinstance(answer, dict) and set(names) <= answer.keys():
            values = [answer[name] for name in names]
        else:
            values = list(self._torch.utils._pytree.tree_flatten(answer)[0])
        if len(values) < len(names):
            raise RunFailed(f"it answers {len(values)} tensors, and its signature names {len(names)}")
        # Copies: an answer may be one of the weights, or share memory with another.
        return {name: np.array(value.numpy()) for name, value in zip(names, values, strict=False)}

    def memory(self) -> MemoryUse:
        return MemoryUse(self._growth.most(measure=self._module is not None))

    def close(self) -> None:
        if self._module is not None:
            self._module = None
            # Modules hold each other in circles.
            gc.collect()
            give_back_free_memory()
