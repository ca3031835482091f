"""Pipeline workers by themselves: lost ones are replaced, and each question is answered or told why not."""

import asyncio
import io
import os
import signal
import time
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from PIL import Image as Pillow

from registry.contract.pipeline import Image, Padding, PipelineSpec, Resize, Tokenise
from registry.contract.versions import Dtype, Signature, TensorSpec, VersionContract
from serving.gateway.faults import PipelineFault, Shed
from serving.gateway.pipelines.messages import Order
from serving.gateway.pipelines.pool import Pool
from serving.runtimes.errors import InputError

PICTURES = VersionContract(
    signature=Signature(
        inputs=(TensorSpec(name="image", dtype=Dtype.FP32, shape=("batch", 3, 8, 8)),),
        outputs=(TensorSpec(name="y", dtype=Dtype.FP32, shape=("batch", 2)),),
    ),
    pipeline=PipelineSpec(pre=(Image(output="image", resize=Resize(width=8, height=8)),)),
)


def picture(side: int) -> bytes:
    stream = io.BytesIO()
    Pillow.new("RGB", (side, side), (1, 2, 3)).save(stream, "PNG", compress_level=1)
    return stream.getvalue()


SMALL = picture(4)
SLOW = picture(7000)


def soon() -> float:
    return time.monotonic() + 60


@pytest.fixture
async def pool() -> AsyncIterator[Pool]:
    pool = Pool(Order(contract=PICTURES, files={}), size=1, limit_s=30, room=2)
    yield pool
    pool.close()
    await pool.wait_closed()


async def ready(pool: Pool, but: int = 0) -> int:
    """The pid of a worker that is ready, and is another one than `but`."""
    async with asyncio.timeout(60):
        while not pool.pids - {but}:
            await asyncio.sleep(0.005)
    return next(iter(pool.pids - {but}))


async def test_a_question_that_kills_two_workers_fails_and_the_next_one_is_answered(pool: Pool) -> None:
    asked = pool.prepare(SLOW, soon())
    waiting = asyncio.create_task(asked.answer())
    first = await ready(pool)
    await asyncio.sleep(0.05)
    os.kill(first, signal.SIGKILL)
    second = await ready(pool, first)
    await asyncio.sleep(0.05)
    os.kill(second, signal.SIGKILL)
    with pytest.raises(PipelineFault, match=r"lost twice with this request: .* ended \(signal 9\)"):
        await waiting
    prepared = await pool.prepare(SMALL, soon()).answer()
    assert prepared.tensors["image"].shape == (1, 3, 8, 8)
    assert prepared.place is not None and prepared.place.width == 4


async def test_a_bad_input_leaves_the_worker_as_it_is(pool: Pool) -> None:
    with pytest.raises(InputError, match="wanted JPEG or PNG") as refused:
        await pool.prepare(b"nothing", soon()).answer()
    assert refused.value.mend
    before = await ready(pool)
    await pool.prepare(SMALL, soon()).answer()
    assert pool.pids == {before}


async def test_what_finds_no_room_is_shed(pool: Pool) -> None:
    await pool.prepare(SMALL, soon()).answer()
    os.kill(await ready(pool), signal.SIGSTOP)
    pool.prepare(SMALL, soon())
    await asyncio.sleep(0.05)
    for _ in range(2):
        pool.prepare(SMALL, soon())
    with pytest.raises(Shed, match="2 requests wait for the pipeline already"):
        pool.prepare(SMALL, soon())


async def test_what_nobody_waits_for_is_not_computed(pool: Pool) -> None:
    await pool.prepare(SMALL, soon()).answer()
    stopped = await ready(pool)
    os.kill(stopped, signal.SIGSTOP)
    held = asyncio.create_task(pool.prepare(SMALL, soon()).answer())
    await asyncio.sleep(0.05)
    left = pool.prepare(SLOW, soon())
    left.fail(PipelineFault("the caller left"))
    last = pool.prepare(SMALL, soon())
    os.kill(stopped, signal.SIGCONT)
    await held
    assert (await last.answer()).place is not None
    with pytest.raises(PipelineFault, match="the caller left"):
        await left.answer()


async def test_a_pipeline_that_can_not_be_made_says_why(tmp_path: Path) -> None:
    broken = tmp_path / "tokenizer.json"
    broken.write_text("{}")
    signature = Signature(
        inputs=(TensorSpec(name="ids", dtype=Dtype.INT64, shape=("batch", "length")),),
        outputs=PICTURES.signature.outputs,
    )
    step = Tokenise(file="tokenizer.json", ids="ids", max_length=8, padding=Padding(masking="id"))
    contract = VersionContract(signature=signature, pipeline=PipelineSpec(pre=(step,)))
    pool = Pool(Order(contract=contract, files={"tokenizer.json": broken}), size=1, limit_s=30, room=8)
    try:
        with pytest.raises(PipelineFault, match=r"'tokenizer.json' is no tokenizer.json"):
            await pool.prepare(b"hello", soon()).answer()
    finally:
        pool.close()
        await pool.wait_closed()


async def test_closing_tells_who_waits(pool: Pool) -> None:
    waiting = asyncio.create_task(pool.prepare(SLOW, soon()).answer())
    await ready(pool)
    pool.close()
    with pytest.raises(PipelineFault, match="taken off this node"):
        await waiting
