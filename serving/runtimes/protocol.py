"""What a runtime is: it loads a file as an engine, and an engine turns input tensors into output tensors.

Runtimes are found by target (`serving.runtimes.catalogue`) and pass one conformance suite.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, Protocol

import numpy.typing as npt

from registry.contract.versions import Signature

Array = npt.NDArray[Any]
Tensors = Mapping[str, Array]
GraphOptimisation = Literal["disabled", "basic", "extended", "all"]
LoadPart = Literal["read", "deserialise", "copy", "warm_up"]
Progress = Callable[[LoadPart], None]


@dataclass(frozen=True, slots=True)
class Device:
    """`index` counts cards of one kind and is 0 for a CPU."""

    kind: Literal["cpu", "cuda"]
    index: int = 0


@dataclass(frozen=True, slots=True)
class LoadOptions:
    """`threads`: the cores that one run may use.

    `graph_optimisation` is what the runtime does to the graph at load. Engines are stored optimised for
    every machine of their target (extended); what `all` adds at load is bound to this one and never stored.
    """

    threads: int = 1
    graph_optimisation: GraphOptimisation = "all"


@dataclass(frozen=True, slots=True)
class LoadTimes:
    """Seconds of each part of a load. `copy_s` is 0 where weights stay in the host's memory."""

    read_s: float
    deserialise_s: float
    copy_s: float = 0.0
    warm_up_s: float = 0.0

    @property
    def total_s(self) -> float:
        return self.read_s + self.deserialise_s + self.copy_s + self.warm_up_s

    def milliseconds(self) -> dict[str, float]:
        """Part → milliseconds, under the names of LoadPart."""
        return {
            "read": self.read_s * 1e3,
            "deserialise": self.deserialise_s * 1e3,
            "copy": self.copy_s * 1e3,
            "warm_up": self.warm_up_s * 1e3,
        }


@dataclass(frozen=True, slots=True)
class MemoryUse:
    """Bytes. `engine`: what this engine added to the process since before its load, at most so far.

    `device`: memory on the card, 0 on a CPU.
    """

    engine: int
    device: int = 0


class LoadedEngine(Protocol):
    """One engine in memory. Not to be used by two threads at once."""

    @property
    def signature(self) -> Signature:
        """As the file says it; unnamed dynamic dimensions are called `<tensor>.<axis>`."""

    @property
    def load_times(self) -> LoadTimes: ...

    @property
    def provider_that_ran(self) -> str:
        """The provider that does the work, under the runtime's own name, e.g. `CPUExecutionProvider`."""

    def infer(self, inputs: Tensors) -> dict[str, Array]:
        """All outputs, by name. Inputs are read, never kept or written.

        Raises InputError (a tensor is missing, unknown, or has the wrong type or shape), RunFailed,
        EngineClosed.
        """

    def memory(self) -> MemoryUse: ...

    def close(self) -> None:
        """Gives the memory back. May be called twice."""


class Runtime(Protocol):
    """The adapter of one kind of engine."""

    @property
    def name(self) -> str: ...

    def load(
        self, path: Path, device: Device, options: LoadOptions, progress: Progress | None = None
    ) -> LoadedEngine:
        """`progress` is told each part as it begins.

        Raises NotAModel, ProviderUnavailable, FileNotFoundError.
        """


def ignore_progress(part: LoadPart) -> None:
    """For loads that nobody watches."""
