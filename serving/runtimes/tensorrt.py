"""TensorRT's own engines, and those of TensorRT for RTX. An engine is a bundle of one serialised plan.

A plan belongs to one major release of TensorRT and to one compute capability: the library refuses others.
"""

import importlib
import time
from pathlib import Path
from typing import Any, Literal

import numpy as np

from registry.contract.versions import Signature
from serving.runtimes.bundle import unpack
from serving.runtimes.cuda import Buffers, Card
from serving.runtimes.dtypes import numpy_dtype
from serving.runtimes.errors import EngineClosed, NotAModel, RunFailed, RuntimeMissing
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

Kind = Literal["tensorrt", "tensorrt_rtx"]
PLAN = "plan.engine"
WANTED = "a TensorRT engine"
# The package whose wheel holds the bindings comes last: it is there without the metapackage too.
_MODULES: dict[Kind, tuple[str, ...]] = {
    "tensorrt": ("tensorrt",),
    "tensorrt_rtx": ("tensorrt_rtx", "tensorrt_rtx_bindings"),
}


def import_tensorrt(kind: Kind) -> Any:
    """The module. Raises RuntimeMissing."""
    for name in _MODULES[kind]:
        try:
            return importlib.import_module(name)
        except ImportError:
            continue
    mend = (
        "install slipway's extra `gpu`"
        if kind == "tensorrt"
        else "for a worker run `./run worker tensorrt-rtx`; a node needs the packages that it names"
    )
    raise RuntimeMissing(kind, f"{mend}, or build for ort.cpu")


def listener(tensorrt: Any) -> Any:
    """A logger that keeps what is worse than a note in `told`, and prints nothing."""

    class Listener(tensorrt.ILogger):  # type: ignore[misc]  # the base is known at run time only
        def __init__(self) -> None:
            tensorrt.ILogger.__init__(self)
            self.told: list[str] = []

        def log(self, severity: Any, message: str) -> None:
            if severity <= tensorrt.ILogger.ERROR:
                self.told.append(message)

    return Listener()


class TensorRt:
    def __init__(self, kind: Kind) -> None:
        self._kind: Kind = kind
        self.name: str = kind

    def load(
        self, path: Path, device: Device, options: LoadOptions, progress: Progress | None = None
    ) -> "TensorRtEngine":
        """The card is looked for before the library is asked for anything: without one it may end the
        process."""
        tensorrt = import_tensorrt(self._kind)
        tell = progress or ignore_progress
        tell("read")
        started = time.perf_counter()
        signature, (plan,) = unpack(path, WANTED, (PLAN,))
        read = time.perf_counter()
        card = Card(device.index)
        tell("deserialise")
        before = card.free_bytes
        told = listener(tensorrt)
        engine = tensorrt.Runtime(told).deserialize_cuda_engine(plan)
        if engine is None:
            card.close()
            raise NotAModel(str(path), WANTED, "; ".join(told.told)[:500] or "it was not deserialised")
        times = LoadTimes(read - started, time.perf_counter() - read)
        return TensorRtEngine(engine, signature, card, told, times, before)


class TensorRtEngine:
    """A plan with one execution context, on the card's default stream."""

    provider_that_ran = "TensorRT"

    def __init__(
        self, engine: Any, signature: Signature, card: Card, told: Any, times: LoadTimes, free_before: int
    ) -> None:
        self.signature = signature
        self.load_times = times
        self._engine = engine
        self._context = engine.create_execution_context()
        self._card = card
        self._told = told
        self._before = free_before
        self._most = 0
        self.memory()

    def infer(self, inputs: Tensors) -> dict[str, Array]:
        if self._engine is None:
            raise EngineClosed()
        check_tensors(self.signature.inputs, inputs)
        self._told.told.clear()
        with Buffers(self._card) as buffers:
            for spec in self.signature.inputs:
                array = np.ascontiguousarray(inputs[spec.name])
                if not self._context.set_input_shape(spec.name, array.shape):
                    raise RunFailed(
                        f"input {spec.name!r} of shape {list(array.shape)} is outside its profile"
                    )
                self._context.set_tensor_address(spec.name, buffers.put(array))
            addresses: dict[str, tuple[int, Array]] = {}
            for spec in self.signature.outputs:
                shape = tuple(self._context.get_tensor_shape(spec.name))
                room = np.empty(shape, dtype=numpy_dtype(spec.dtype))
                address = buffers.room(room.nbytes)
                self._context.set_tensor_address(spec.name, address)
                addresses[spec.name] = (address, room)
            if not self._context.execute_async_v3(0):
                raise RunFailed("; ".join(self._told.told)[:500] or "the execution context refused to run")
            self._card.call("cuCtxSynchronize")
            self.memory()
            return {name: buffers.get(address, room) for name, (address, room) in addresses.items()}

    def memory(self) -> MemoryUse:
        if self._engine is not None:
            self._most = max(self._most, self._before - self._card.free_bytes)
        return MemoryUse(0, self._most)

    def close(self) -> None:
        if self._engine is not None:
            self._context = self._engine = None
            self._card.close()
