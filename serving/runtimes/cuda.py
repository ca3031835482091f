"""NVIDIA cards through the driver's own library, which every machine with a card has: no package is needed.

`python -m serving.runtimes.cuda` prints the compute capability of each card. Others ask it so, in a process
of its own (`capabilities`): a driver that doesn't fit its kernel module may end the process that calls it.
"""

import ctypes
import functools
import subprocess
import sys
from pathlib import Path
from types import TracebackType
from typing import Any

import numpy as np

from serving.runtimes.errors import ProviderUnavailable, RunFailed
from serving.runtimes.protocol import Array

LIBRARY = "libcuda.so.1"
PROBE_S = 30.0
_MAJOR, _MINOR = 75, 76
_MEND = (
    "run it on a machine with an NVIDIA card and its driver (`nvidia-smi` lists them), or build for ort.cpu"
)


@functools.cache
def capabilities() -> tuple[str, ...]:
    """`sm_90` for each card of this machine, in order; empty where there is none or its driver fails."""
    devices = Path("/dev")
    if not (any(devices.glob("nvidia[0-9]*")) or (devices / "dxg").exists()):
        return ()
    try:
        probe = subprocess.run(
            [sys.executable, "-m", "serving.runtimes.cuda"],
            capture_output=True,
            text=True,
            check=False,
            timeout=PROBE_S,
        )
    except subprocess.TimeoutExpired:
        return ()
    return tuple(probe.stdout.split()) if probe.returncode == 0 else ()


class Card:
    """The primary context of one card, current in this thread. Raises ProviderUnavailable without a card."""

    def __init__(self, index: int = 0) -> None:
        try:
            self._cuda = ctypes.CDLL(LIBRARY)
        except OSError as error:
            raise ProviderUnavailable("CUDA", (), f"there is no driver here ({error}); {_MEND}") from error
        code = self._cuda.cuInit(0)
        count = ctypes.c_int()
        if code == 0:
            code = self._cuda.cuDeviceGetCount(ctypes.byref(count))
        if code != 0 or index >= count.value:
            raise ProviderUnavailable(
                "CUDA",
                (),
                f"the driver finds {count.value} cards (error {code}), card {index} is wanted; {_MEND}",
            )
        self._device = ctypes.c_int()
        self._context = ctypes.c_void_p()
        self.call("cuDeviceGet", ctypes.byref(self._device), index)
        self.call("cuDevicePrimaryCtxRetain", ctypes.byref(self._context), self._device)
        self.call("cuCtxSetCurrent", self._context)

    @property
    def capability(self) -> str:
        found = []
        for attribute in (_MAJOR, _MINOR):
            value = ctypes.c_int()
            self.call("cuDeviceGetAttribute", ctypes.byref(value), attribute, self._device)
            found.append(value.value)
        return f"sm_{found[0]}{found[1]}"

    @property
    def driver(self) -> str:
        """The newest CUDA release that it runs, e.g. `13000`."""
        value = ctypes.c_int()
        self.call("cuDriverGetVersion", ctypes.byref(value))
        return str(value.value)

    @property
    def free_bytes(self) -> int:
        free, total = ctypes.c_size_t(), ctypes.c_size_t()
        self.call("cuMemGetInfo_v2", ctypes.byref(free), ctypes.byref(total))
        return free.value

    def call(self, name: str, *arguments: Any) -> None:
        """Raises RunFailed with the driver's error number."""
        code = getattr(self._cuda, name)(*arguments)
        if code != 0:
            raise RunFailed(f"{name} of the CUDA driver answers error {code}")

    def close(self) -> None:
        if self._context:
            self._context = ctypes.c_void_p()
            self.call("cuDevicePrimaryCtxRelease_v2", self._device)


class Buffers:
    """Memory on a card for one run; given back when the block ends."""

    def __init__(self, card: Card) -> None:
        self._card = card
        self._held: list[ctypes.c_uint64] = []

    def __enter__(self) -> "Buffers":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for address in self._held:
            self._card.call("cuMemFree_v2", address)

    def room(self, size: int) -> int:
        """Address of `size` bytes, at least one."""
        address = ctypes.c_uint64()
        self._card.call("cuMemAlloc_v2", ctypes.byref(address), ctypes.c_size_t(max(1, size)))
        self._held.append(address)
        return address.value

    def put(self, array: Array) -> int:
        """Address of a copy of a contiguous array."""
        address = self.room(array.nbytes)
        if array.nbytes:
            self._card.call(
                "cuMemcpyHtoD_v2",
                ctypes.c_uint64(address),
                ctypes.c_void_p(array.ctypes.data),
                ctypes.c_size_t(array.nbytes),
            )
        return address

    def get(self, address: int, array: Array) -> Array:
        """Fills a contiguous array."""
        if array.nbytes:
            self._card.call(
                "cuMemcpyDtoH_v2",
                ctypes.c_void_p(array.ctypes.data),
                ctypes.c_uint64(address),
                ctypes.c_size_t(array.nbytes),
            )
        return np.asarray(array)


def main() -> int:
    found: list[str] = []
    try:
        while True:
            found.append(Card(len(found)).capability)
    except ProviderUnavailable:
        print(" ".join(found))
    return 0


if __name__ == "__main__":
    sys.exit(main())
