"""The frames between an engine process and its clients: one SEQPACKET message each.

    head (24 bytes) | meta (JSON) | zeros up to a multiple of 16 | inline tensor bytes

The head is: protocol version, kind, 0, length of meta, request id, number. Tensors of 64 KB and more lie in
one memfd per frame, passed by SCM_RIGHTS and sealed against shrinking: the kernel frees it with the last
holder, so nothing leaks when a process is killed. Integers are little-endian.
"""

import fcntl
import mmap
import os
import socket
import struct
from array import array
from dataclasses import dataclass
from enum import IntEnum
from math import prod
from typing import Any

import numpy as np
import orjson

from registry.contract.versions import Dtype
from serving.engine.errors import FrameError
from serving.runtimes.dtypes import dtype_name, numpy_dtype, pack_bytes, unpack_bytes
from serving.runtimes.errors import InputError
from serving.runtimes.protocol import Array, Tensors

PROTOCOL = 1
MEMFD_FROM = 64 * 1024
INLINE_LIMIT = 128 * 1024
FRAME_LIMIT = 192 * 1024
_HEAD = struct.Struct("<BBHIQQ")
_ALIGN = 16
_ZEROS = bytes(_ALIGN)
_RIGHTS_SPACE = socket.CMSG_SPACE(2 * array("i").itemsize)
_FD_BYTES = array("i").itemsize
_SEALS = fcntl.F_SEAL_SHRINK | fcntl.F_SEAL_GROW | fcntl.F_SEAL_SEAL


class FrameKind(IntEnum):
    """`number` of an INFER is its deadline (CLOCK_MONOTONIC µs, 0: none), of an ANSWER the engine's µs,
    of a WARM the most rows."""

    INFER = 1
    PING = 2
    INFO = 3
    WARM = 4
    ANSWER = 129
    REPORT = 130
    FAILED = 131


_KINDS = {kind.value: kind for kind in FrameKind}
_ELEMENTS = {dtype.value: numpy_dtype(dtype) for dtype in Dtype}


@dataclass(slots=True)
class Frame:
    """A frame to send. Owns its memfd until it was sent or dropped."""

    parts: list[bytes]
    fd: int | None = None

    def send(self, sock: socket.socket) -> bool:
        """False when the socket's buffer is full: nothing was sent then. Raises OSError."""
        if self.fd is None:
            rights: list[tuple[int, int, Any]] = []
        else:
            rights = [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array("i", [self.fd]))]
        try:
            sock.sendmsg(self.parts, rights, socket.MSG_NOSIGNAL)
        except BlockingIOError:
            return False
        self.drop()
        return True

    def drop(self) -> None:
        if self.fd is not None:
            os.close(self.fd)
            self.fd = None


@dataclass(slots=True)
class Received:
    """A frame that came. `body` is the meta as JSON says it; `tensors_of` reads the tensors."""

    kind: FrameKind
    request: int
    number: int
    body: Any
    data: memoryview
    shared: mmap.mmap | None


def plain_frame(kind: FrameKind, request: int, number: int = 0, body: object = None) -> Frame:
    """A frame without tensors. Raises FrameError when the body is too long."""
    meta = orjson.dumps(body)
    if len(meta) + _HEAD.size > FRAME_LIMIT:
        raise FrameError(f"a frame's body of {len(meta)} bytes is longer than {FRAME_LIMIT} bytes")
    return Frame([_HEAD.pack(PROTOCOL, kind, 0, len(meta), request, number), meta])


def tensor_frame(kind: FrameKind, request: int, number: int, tensors: Tensors) -> Frame:
    """Raises InputError for a data type without a protocol name."""
    entries: list[tuple[str, str, tuple[int, ...], int, int, bool]] = []
    inline: list[bytes] = []
    shared: list[Array | bytes] = []
    inline_size = shared_size = 0
    for name, tensor in tensors.items():
        dtype = dtype_name(tensor.dtype)
        if dtype is None:
            raise InputError(
                f"tensor {name!r}",
                wanted=f"a dtype among {', '.join(Dtype)}",
                got=str(tensor.dtype),
                mend="convert it",
            )
        packed = pack_bytes(tensor) if dtype is Dtype.BYTES else None
        size = tensor.nbytes if packed is None else len(packed)
        in_memfd = size >= MEMFD_FROM or inline_size + size > INLINE_LIMIT
        at = shared_size if in_memfd else inline_size
        entries.append((name, dtype.value, tensor.shape, at, size, in_memfd))
        padding = _ZEROS[: -size % _ALIGN]
        if in_memfd:
            shared += (np.ascontiguousarray(tensor) if packed is None else packed, padding)
            shared_size += size + len(padding)
        else:
            inline += (tensor.tobytes() if packed is None else packed, padding)
            inline_size += size + len(padding)
    meta = orjson.dumps(entries)
    if _HEAD.size + len(meta) + inline_size > FRAME_LIMIT:
        raise FrameError(f"{len(entries)} tensors are described by {len(meta)} bytes, too many for a frame")
    head = _HEAD.pack(PROTOCOL, kind, 0, len(meta), request, number)
    gap = _ZEROS[: -(len(head) + len(meta)) % _ALIGN]
    return Frame([head, meta, gap, *inline], _to_memfd(shared) if shared_size else None)


def _to_memfd(parts: list[Array | bytes]) -> int:
    fd = os.memfd_create("tensors", os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)
    try:
        for part in parts:
            rest = memoryview(part) if isinstance(part, bytes) else part.reshape(-1).view(np.uint8).data
            while rest:
                rest = rest[os.write(fd, rest) :]
        fcntl.fcntl(fd, fcntl.F_ADD_SEALS, _SEALS)
    except BaseException:
        os.close(fd)
        raise
    return fd


def new_scratch() -> memoryview:
    """What `receive` reads into: one for each socket or thread. A byte more than a frame may have."""
    return memoryview(bytearray(FRAME_LIMIT + 1))


def receive(sock: socket.socket, scratch: memoryview) -> Received | None:
    """Reads one frame; None at the end of the connection.

    Raises FrameError (not a frame), BlockingIOError (nothing there), OSError.
    """
    try:
        size, rights, flags, _ = sock.recvmsg_into([scratch], _RIGHTS_SPACE, socket.MSG_CMSG_CLOEXEC)
    except ConnectionResetError:
        # The peer left frames of ours unread. This is told before what it sent can be read.
        size, rights, flags, _ = sock.recvmsg_into([scratch], _RIGHTS_SPACE, socket.MSG_CMSG_CLOEXEC)
    fds = _descriptors(rights) if rights else []
    try:
        if size == 0:
            return None
        if flags & (socket.MSG_TRUNC | socket.MSG_CTRUNC) or len(fds) > 1:
            raise FrameError(f"a frame holds at most {FRAME_LIMIT} bytes and one descriptor")
        return _parse(bytes(scratch[:size]), fds[0] if fds else None)
    finally:
        for fd in fds:
            os.close(fd)


def _descriptors(rights: list[tuple[int, int, bytes]]) -> list[int]:
    found = array("i")
    for level, kind, data in rights:
        if level == socket.SOL_SOCKET and kind == socket.SCM_RIGHTS:
            found.frombytes(data[: len(data) - len(data) % _FD_BYTES])
    return list(found)


def _parse(message: bytes, fd: int | None) -> Received:
    if len(message) < _HEAD.size:
        raise FrameError(f"a frame of {len(message)} bytes is shorter than its head")
    protocol, kind, _, meta_size, request, number = _HEAD.unpack_from(message)
    if protocol != PROTOCOL:
        raise FrameError(f"protocol {protocol} is not {PROTOCOL}")
    end = _HEAD.size + meta_size
    if end > len(message):
        raise FrameError(f"a meta of {meta_size} bytes does not fit into a frame of {len(message)} bytes")
    known = _KINDS.get(kind)
    if known is None:
        raise FrameError(f"{kind} is no kind of frame")
    try:
        body = orjson.loads(message[_HEAD.size : end])
    except ValueError as error:
        raise FrameError(f"the meta of a frame is no JSON: {error}") from error
    data = memoryview(message)[end + -end % _ALIGN :]
    return Received(known, request, number, body, data, None if fd is None else _map(fd))


def _map(fd: int) -> mmap.mmap:
    """Without the seal its sender could shorten the file and kill the reader by SIGBUS."""
    try:
        if not fcntl.fcntl(fd, fcntl.F_GET_SEALS) & fcntl.F_SEAL_SHRINK:
            raise FrameError("the descriptor of a frame is not sealed against shrinking")
        return mmap.mmap(fd, 0, flags=mmap.MAP_SHARED | mmap.MAP_POPULATE, prot=mmap.PROT_READ)
    except (OSError, ValueError) as error:
        raise FrameError(f"the descriptor of a frame can't be mapped: {error}") from error


def tensors_of(frame: Received) -> dict[str, Array]:
    """Read-only arrays on the frame's own memory, which lives as long as they do. Raises FrameError."""
    try:
        return {entry[0]: _tensor(frame, *entry[1:]) for entry in frame.body}
    except (TypeError, ValueError, IndexError, KeyError, InputError) as error:
        raise FrameError(f"the tensors of a frame can't be read: {error}") from error


def _tensor(frame: Received, dtype: str, shape: list[int], at: int, size: int, in_memfd: bool) -> Array:
    element = _ELEMENTS[dtype]
    source = frame.shared if in_memfd else frame.data
    if source is None or at < 0 or size < 0 or at + size > len(source):
        raise FrameError(f"a tensor of {size} bytes at {at} lies outside its frame")
    if element.hasobject:
        return unpack_bytes(memoryview(source)[at : at + size], shape)
    if prod(shape) * element.itemsize != size:
        raise FrameError(f"a tensor {dtype}{shape} has not {size} bytes")
    if not size:
        return np.empty(shape, dtype=element)
    return np.ndarray(shape, element, source, at)
