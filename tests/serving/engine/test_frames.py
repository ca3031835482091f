import fcntl
import os
import socket
import struct
from array import array
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import orjson
import pytest

from serving.engine.errors import FrameError
from serving.engine.frames import (
    FRAME_LIMIT,
    MEMFD_FROM,
    FrameKind,
    Received,
    new_scratch,
    plain_frame,
    receive,
    tensor_frame,
    tensors_of,
)
from serving.runtimes.errors import InputError

Pair = tuple[socket.socket, socket.socket]
HEAD = struct.Struct("<BBHIQQ")


@pytest.fixture
def pair() -> Iterator[Pair]:
    left, right = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    right.setblocking(False)
    yield left, right
    left.close()
    right.close()


def carried(pair: Pair, tensors: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    tensor_frame(FrameKind.INFER, 7, 9, tensors).send(pair[0])
    frame = receive(pair[1], new_scratch())
    assert isinstance(frame, Received)
    assert (frame.kind, frame.request, frame.number) == (FrameKind.INFER, 7, 9)
    return tensors_of(frame)


@pytest.mark.parametrize("code", ["?", "u1", "i1", "i2", "i4", "i8", "f2", "f4", "f8"])
@pytest.mark.parametrize("count", [1, 5, MEMFD_FROM + 3])
def test_tensors_arrive_as_they_were(pair: Pair, code: str, count: int) -> None:
    sent = (np.arange(2 * count) % 2).astype(code).reshape(2, count)
    got = carried(pair, {"first": sent, "second": sent[:, ::2]})
    for name, wanted in (("first", sent), ("second", sent[:, ::2])):
        assert got[name].dtype == wanted.dtype
        np.testing.assert_array_equal(got[name], wanted)
        assert got[name].flags.aligned
        assert not got[name].flags.writeable


@pytest.mark.parametrize("shape", [(), (0,), (3, 0), (1, 1, 1)])
def test_odd_shapes_arrive(pair: Pair, shape: tuple[int, ...]) -> None:
    assert carried(pair, {"x": np.ones(shape, np.float32)})["x"].shape == shape


@pytest.mark.parametrize("size", [3, MEMFD_FROM])
def test_text_arrives(pair: Pair, size: int) -> None:
    sent = np.array([["ä", b"\xff" * size]], dtype=np.object_)
    assert carried(pair, {"x": sent})["x"].tolist() == [["ä".encode(), b"\xff" * size]]


def test_many_small_tensors_spill_into_the_memfd(pair: Pair) -> None:
    sent = {f"t{index}": np.full(8000, index, np.float32) for index in range(20)}
    got = carried(pair, sent)
    assert [float(tensor[-1]) for tensor in got.values()] == list(range(20))


def test_a_dtype_without_a_name_is_refused() -> None:
    with pytest.raises(InputError, match="complex64"):
        tensor_frame(FrameKind.INFER, 1, 0, {"x": np.zeros(2, np.complex64)})


def test_nothing_is_left_open(pair: Pair) -> None:
    def open_now() -> int:
        return len(list(Path("/proc/self/fd").iterdir()))

    before = open_now()
    big = {"x": np.zeros(MEMFD_FROM, np.float32)}
    got = carried(pair, big)
    tensor_frame(FrameKind.INFER, 1, 0, big).drop()
    assert got["x"].shape == (MEMFD_FROM,)
    del got
    assert open_now() == before


def test_a_full_socket_sends_nothing_and_keeps_the_frame(pair: Pair) -> None:
    pair[0].setblocking(False)
    sent = 0
    while plain_frame(FrameKind.PING, sent, 0, "x" * 50_000).send(pair[0]):
        sent += 1
    waiting = tensor_frame(FrameKind.INFER, 99, 0, {"x": np.ones(MEMFD_FROM, np.float32)})
    assert not waiting.send(pair[0])
    scratch = new_scratch()
    for index in range(sent):
        frame = receive(pair[1], scratch)
        assert isinstance(frame, Received)
        assert frame.request == index
    assert waiting.send(pair[0])
    frame = receive(pair[1], scratch)
    assert isinstance(frame, Received)
    assert tensors_of(frame)["x"].sum() == MEMFD_FROM


def test_the_end_is_no_error(pair: Pair) -> None:
    pair[0].close()
    assert receive(pair[1], new_scratch()) is None


def test_what_was_sent_before_the_end_is_still_read(pair: Pair) -> None:
    """A unix socket that closes with something unread tells its peer of a reset, before what it had sent."""
    left, right = pair
    plain_frame(FrameKind.PING, 1).send(right)
    plain_frame(FrameKind.REPORT, 2).send(left)
    left.close()
    frame = receive(right, new_scratch())
    assert isinstance(frame, Received)
    assert frame.request == 2
    assert receive(right, new_scratch()) is None


GOOD = HEAD.pack(1, 1, 0, 2, 1, 0) + b"[]"


@pytest.mark.parametrize(
    "message",
    [
        b"x",
        GOOD[:20],
        HEAD.pack(2, 1, 0, 2, 1, 0) + b"[]",
        HEAD.pack(1, 77, 0, 2, 1, 0) + b"[]",
        HEAD.pack(1, 1, 0, 1 << 30, 1, 0) + b"[]",
        HEAD.pack(1, 1, 0, 2, 1, 0) + b"[x",
        bytes(FRAME_LIMIT + 1),
    ],
)
def test_what_is_no_frame_is_refused(pair: Pair, message: bytes) -> None:
    pair[0].send(message)
    with pytest.raises(FrameError):
        receive(pair[1], new_scratch())


@pytest.mark.parametrize(
    "entries",
    [
        5,
        [5],
        [["x"]],
        [["x", "FP32", [2], 0, 8, True]],
        [["x", "FP32", [2], 0, 4, False]],
        [["x", "FP32", [2], 12, 8, False]],
        [["x", "FP32", [2], -8, 8, False]],
        [["x", "FP32", [-1, -2], 0, 8, False]],
        [["x", "FP32", [1 << 60], 0, 1 << 62, False]],
        [["x", "FP31", [2], 0, 8, False]],
        [["x", "FP32", "2", 0, 8, False]],
        [["x", "BYTES", [1], 0, 16, False]],
        [[{"a": 1}, "FP32", [2], 0, 8, False]],
    ],
)
def test_tensors_outside_their_frame_are_refused(pair: Pair, entries: object) -> None:
    meta = orjson.dumps(entries)
    message = HEAD.pack(1, 1, 0, len(meta), 1, 0) + meta
    pair[0].send(message + bytes(-len(message) % 16) + b"\xff" * 16)
    frame = receive(pair[1], new_scratch())
    assert isinstance(frame, Received)
    with pytest.raises(FrameError):
        tensors_of(frame)


def _send_fd(pair: Pair, fds: list[int]) -> None:
    meta = orjson.dumps([["x", "UINT8", [4096], 0, 4096, True]])
    message = HEAD.pack(1, 1, 0, len(meta), 1, 0) + meta
    pair[0].sendmsg([message], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array("i", fds))])


def test_a_file_that_may_shrink_is_refused(pair: Pair) -> None:
    fd = os.memfd_create("loose", os.MFD_ALLOW_SEALING)
    os.ftruncate(fd, 4096)
    _send_fd(pair, [fd])
    with pytest.raises(FrameError, match="not sealed"):
        receive(pair[1], new_scratch())
    fcntl.fcntl(fd, fcntl.F_ADD_SEALS, fcntl.F_SEAL_SHRINK)
    _send_fd(pair, [fd])
    frame = receive(pair[1], new_scratch())
    assert isinstance(frame, Received)
    assert not tensors_of(frame)["x"].any()
    os.close(fd)


@pytest.mark.parametrize("count", [2, 5])
def test_more_than_one_descriptor_is_refused_and_closed(pair: Pair, count: int) -> None:
    fds = [os.memfd_create("many") for _ in range(count)]
    before = len(list(Path("/proc/self/fd").iterdir()))
    _send_fd(pair, fds)
    with pytest.raises(FrameError, match="one descriptor"):
        receive(pair[1], new_scratch())
    assert len(list(Path("/proc/self/fd").iterdir())) == before
    for fd in fds:
        os.close(fd)


def test_a_descriptor_that_is_no_memory_is_refused(pair: Pair) -> None:
    reader, writer = os.pipe()
    _send_fd(pair, [reader])
    with pytest.raises(FrameError, match="can't be mapped"):
        receive(pair[1], new_scratch())
    os.close(reader)
    os.close(writer)
