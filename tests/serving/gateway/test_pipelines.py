"""Raw inputs of every kind through a real gateway: in pipeline workers where they are dear, and as 4xx where
they are bad."""

import asyncio
import hashlib
import io
import json
import signal
from collections.abc import AsyncIterator
from typing import Any

import httpx
import numpy as np
import psutil
import pytest
from PIL import Image as Pillow

from registry.contract.counters import CounterEdges, ObservableEdges
from registry.contract.pipeline import (
    Column,
    Detect,
    Image,
    Padding,
    PipelineSpec,
    Regress,
    Resize,
    Table,
    Tensors,
    Tokenise,
    Window,
)
from registry.contract.versions import BatchRule, Dtype, Observable, Signature, TensorSpec, VersionContract
from tests.serving import tiny_models
from tests.serving.gateway.conftest import EngineRun, Engines
from tests.serving.gateway.contracts import CLASSIFIER, ArmSpec, EntrySpec
from tests.serving.gateway.rig import Rig, gateway, problem

SIDE, CELL = 32, 8
WORDS = ("<pad>", "<unk>", *"abcdefghij")
CELLS = VersionContract(
    signature=Signature(
        inputs=(TensorSpec(name="image", dtype=Dtype.FP32, shape=("batch", 1, SIDE, SIDE)),),
        outputs=(
            TensorSpec(name="boxes", dtype=Dtype.FP32, shape=("batch", 16, 4)),
            TensorSpec(name="scores", dtype=Dtype.FP32, shape=("batch", 16, 1)),
        ),
    ),
    pipeline=PipelineSpec(
        pre=(Image(output="image", colour="grey", resize=Resize(width=SIDE, height=SIDE), scale=1 / 255),),
        post=(Detect(boxes="boxes", scores="scores", labels=("lamp",), threshold=0.5),),
    ),
    observables=(Observable(name="lamps", kind="count", source="count"),),
)
LAMPS = CounterEdges(observables=(ObservableEdges(name="lamps", kind="count", edges=(1, 2, 3)),))
TOKENS = Signature(
    inputs=tuple(TensorSpec(name=n, dtype=Dtype.INT64, shape=("batch", "length")) for n in ("ids", "mask")),
    outputs=(
        TensorSpec(name="mean", dtype=Dtype.FP32, shape=("batch", 1)),
        TensorSpec(name="each", dtype=Dtype.FP32, shape=("batch", "length")),
    ),
)


def text_contract(file: str = "vocab.txt") -> VersionContract:
    step = Tokenise(
        tokenizer="vocabulary",
        file=file,
        ids="ids",
        mask="mask",
        max_length=64,
        truncate="refuse",
        unknown="<unk>",
        padding=Padding(masking="mask"),
    )
    return VersionContract(signature=TOKENS, pipeline=PipelineSpec(pre=(step,), post=(Tensors(),)))


def lamps(*lit: tuple[int, int], scale: int = 2) -> bytes:
    """A picture of `scale` times the model's size, whose named cells (row, column) shine."""
    cells = np.zeros((4, 4), np.uint8)
    for row, column in lit:
        cells[row, column] = 255
    stream = io.BytesIO()
    Pillow.fromarray(np.kron(cells, np.ones((CELL * scale, CELL * scale), np.uint8))).save(stream, "PNG")
    return stream.getvalue()


async def predict(rig: Rig, raw: bytes, name: str = "m") -> httpx.Response:
    return await rig.http.post(f"/v2/models/{name}/predict", content=raw)


def workers(rig: Rig) -> list[psutil.Process]:
    """The pipeline workers: a gateway has no other children."""
    return psutil.Process(rig.process.pid).children()


async def worker(rig: Rig) -> psutil.Process:
    async with asyncio.timeout(60):
        while not (found := workers(rig)):
            await asyncio.sleep(0.01)
    return found[0]


def place(rig: Rig, content: bytes) -> str:
    """The digest of bytes that now lie where the agent would have put them."""
    digest = f"sha256-{hashlib.sha256(content).hexdigest()}"
    path = rig.state / "engines" / digest / "model.onnx"
    path.parent.mkdir(parents=True)
    path.write_bytes(content)
    return digest


@pytest.fixture(scope="session")
def cells_engine(engines: Engines) -> str:
    return engines.start(tiny_models.cells(engines.folder / "cells.onnx")).socket


@pytest.fixture(scope="session")
def tokens_run(engines: Engines) -> EngineRun:
    return engines.start(tiny_models.tokens(engines.folder / "tokens.onnx"))


@pytest.fixture
async def quick() -> AsyncIterator[Rig]:
    """A gateway whose pipeline workers may take one second."""
    async with gateway({"SLIPWAY_GATEWAY_PIPELINE_LIMIT_S": "1"}) as rig:
        yield rig


async def test_a_picture_becomes_boxes_in_its_own_pixels(rig: Rig, cells_engine: str) -> None:
    await rig.take(EntrySpec((ArmSpec("s", cells_engine, CELLS),), edges=LAMPS))
    response = await predict(rig, lamps((0, 1), (2, 3)))
    assert response.status_code == 200
    answer = response.json()["answer"]
    assert [one["box"] for one in answer["detections"]] == [[16, 0, 32, 16], [48, 32, 64, 48]]
    assert (answer["count"], answer["detections"][0]["label"]) == (2, "lamp")
    assert (await predict(rig, lamps(scale=5))).json()["answer"]["detections"] == []
    assert rig.counters("s").fields["observable.lamps"].tolist() == [1, 0, 1, 0]
    assert rig.outcomes("s") == {"ok": 2}
    assert len(workers(rig)) == 1


async def test_bad_pictures_are_the_callers_to_mend(rig: Rig, cells_engine: str) -> None:
    await rig.take(EntrySpec((ArmSpec("s", cells_engine, CELLS),), edges=LAMPS))
    said = []
    for raw in (lamps((0, 0))[:60], b"hello", b""):
        response = await predict(rig, raw)
        assert response.status_code == 422
        said.append(problem(response)["detail"])
    assert "can't be decoded" in said[0]
    assert "wanted JPEG or PNG" in said[1]
    assert rig.outcomes("s") == {"rejected": 3}


async def test_a_killed_worker_is_replaced_and_its_request_answered(rig: Rig, cells_engine: str) -> None:
    await rig.take(EntrySpec((ArmSpec("s", cells_engine, CELLS),), edges=LAMPS))
    assert (await predict(rig, lamps((0, 0)))).status_code == 200
    first = await worker(rig)
    first.send_signal(signal.SIGSTOP)
    asked = asyncio.create_task(predict(rig, lamps((1, 1))))
    await rig.inside("s", 1)
    first.kill()
    response = await asked
    assert response.status_code == 200
    assert response.json()["answer"]["count"] == 1
    assert [one.pid for one in workers(rig)] != [first.pid]
    assert rig.outcomes("s") == {"ok": 2}


async def test_a_hanging_worker_is_stopped_and_holds_nobody_else(
    quick: Rig, cells_engine: str, classifier: str
) -> None:
    await quick.take(
        EntrySpec((ArmSpec("s", cells_engine, CELLS),), edges=LAMPS),
        EntrySpec((ArmSpec("o", classifier, CLASSIFIER),), name="other"),
    )
    assert (await predict(quick, lamps())).status_code == 200
    stuck = await worker(quick)
    stuck.send_signal(signal.SIGSTOP)
    first = asyncio.create_task(predict(quick, lamps((0, 0))))
    await quick.inside("s", 1)
    second = asyncio.create_task(predict(quick, lamps((0, 0))))
    await quick.inside("s", 2)
    for _ in range(5):
        other = await quick.infer({"x": ("FP32", [[1.0, 0.0, 0.0, 0.0]])}, path="other")
        assert other.status_code == 200
    assert not first.done(), "the others were answered while it hung"
    hung = problem(await first)
    assert hung["status"] == 500
    assert "took longer than 1 s and was stopped" in hung["detail"]
    assert (await second).status_code == 200, "what waited behind it goes to the replacement"
    assert quick.outcomes("s") == {"ok": 2, "pipeline_error": 1}


async def test_a_deadline_ends_the_wait_for_a_worker(quick: Rig, cells_engine: str) -> None:
    await quick.take(EntrySpec((ArmSpec("s", cells_engine, CELLS),), edges=LAMPS))
    assert (await predict(quick, lamps())).status_code == 200
    (await worker(quick)).send_signal(signal.SIGSTOP)
    late = await quick.http.post(
        "/v2/models/m/predict", content=lamps(), headers={"x-request-timeout-ms": "200"}
    )
    assert (late.status_code, late.json()["layer"]) == (504, "pre")


async def test_texts_of_mixed_lengths_share_a_run_and_keep_their_own(rig: Rig, tokens_run: EngineRun) -> None:
    digest = place(rig, "\n".join(WORDS).encode())
    arm = ArmSpec("s", tokens_run.socket, text_contract(), files={"vocab.txt": digest})
    await rig.take(EntrySpec((arm,)))
    texts = ["a b c", "j", "b b b b b b b b", "c a"]
    ids = [[WORDS.index(word) for word in text.split()] for text in texts]
    tokens_run.hold()
    first = asyncio.create_task(predict(rig, b"a"))
    await rig.inside("s", 1)
    asked = [asyncio.create_task(predict(rig, text.encode())) for text in texts]
    await rig.inside("s", 1 + len(texts))
    tokens_run.release()
    assert (await first).json()["answer"] == {"mean": [2.0], "each": [2.0]}
    for wanted, response in zip(ids, await asyncio.gather(*asked), strict=True):
        answer = response.json()["answer"]
        assert answer["each"] == wanted, "cut to its own length"
        assert answer["mean"][0] == pytest.approx(np.mean(wanted), rel=1e-5)
    fields = rig.counters("s").fields
    assert (fields["engine_us.1"].sum(), fields["engine_us.4"].sum()) == (1, 1), "four lengths in one run"


async def test_bad_texts_are_the_callers_to_mend(rig: Rig, tokens_run: EngineRun) -> None:
    digest = place(rig, "\n".join(WORDS).encode())
    await rig.take(
        EntrySpec((ArmSpec("s", tokens_run.socket, text_contract(), files={"vocab.txt": digest}),))
    )
    for raw, said in (
        (b"\xff\xfe", "wanted UTF-8"),
        (b" ", "at least one token"),
        (b"a " * 65, "at most 64 tokens"),
    ):
        response = await predict(rig, raw)
        assert response.status_code == 422
        assert said in problem(response)["detail"]
    # A long text goes to a worker, and is refused there in the same words.
    long = await predict(rig, b"a " * 5000)
    assert long.status_code == 422
    assert "at most 64 tokens, got 5000 tokens" in problem(long)["detail"]
    assert len(workers(rig)) == 1


async def test_large_files_are_read_by_workers_only(rig: Rig, tokens_run: EngineRun) -> None:
    words = [*WORDS, *(f"word{at}" for at in range(60_000))]
    digest = place(rig, "\n".join(words).encode())
    await rig.take(
        EntrySpec((ArmSpec("s", tokens_run.socket, text_contract(), files={"vocab.txt": digest}),))
    )
    assert (await predict(rig, b"word7 a")).json()["answer"]["each"] == [len(WORDS) + 7, 2]


async def test_a_pipeline_that_no_worker_can_make_turns_the_node_red(rig: Rig, tokens_run: EngineRun) -> None:
    # Too large to be read by the gateway itself, and without the unknown token.
    digest = place(rig, "\n".join(f"word{at}" for at in range(60_000)).encode())
    await rig.take(
        EntrySpec((ArmSpec("s", tokens_run.socket, text_contract(), files={"vocab.txt": digest}),))
    )
    failed = problem(await predict(rig, b"word7"))
    assert failed["status"] == 500
    assert "doesn't list the unknown token" in failed["detail"]
    ready = await rig.http.get("/readyz")
    assert ready.status_code == 503
    assert "doesn't list the unknown token" in problem(ready)["detail"]


async def test_an_arm_whose_file_is_missing_is_not_served_and_harms_no_other(
    rig: Rig, classifier: str
) -> None:
    await rig.take(
        EntrySpec((ArmSpec("s", classifier, text_contract()),)),
        EntrySpec((ArmSpec("o", classifier, CLASSIFIER),), name="other"),
    )
    assert (await predict(rig, b"a")).status_code == 503
    assert (await predict(rig, b'{"x": [1, 0, 0, 0]}', "other")).status_code == 200


def contract(step: Any, max_rows: int = 8) -> VersionContract:
    return VersionContract(
        signature=Signature(
            inputs=(TensorSpec(name="x", dtype=Dtype.FP32, shape=("batch", 4)),),
            outputs=(TensorSpec(name="y", dtype=Dtype.FP32, shape=("batch", 4)),),
        ),
        pipeline=PipelineSpec(pre=(step,), post=(Regress(output="y", column=3, field="next"),)),
        batch=BatchRule(max_rows=max_rows),
    )


async def test_all_windows_of_a_series_are_answered_in_order(rig: Rig, copier: str) -> None:
    step = Window(output="x", length=4, stride=2, take="all", align="start")
    await rig.take(EntrySpec((ArmSpec("s", copier, contract(step)),)))
    response = await predict(rig, json.dumps(list(range(9))).encode())
    assert [one["next"] for one in response.json()["answers"]] == [3, 5, 7]
    short = await predict(rig, b"[1, 2]")
    assert short.status_code == 422
    assert "at least 4 steps" in problem(short)["detail"]
    many = await predict(rig, json.dumps(list(range(40))).encode())
    assert "at most 8 rows, got 19 rows" in problem(many)["detail"]


async def test_a_table_is_answered_and_a_wrong_column_named(rig: Rig, copier: str) -> None:
    step = Table(output="x", columns=tuple(Column(name=name) for name in ("age", "size", "rooms", "price")))
    await rig.take(EntrySpec((ArmSpec("s", copier, contract(step)),)))
    good = {"age": 1, "size": 2, "rooms": 3, "price": 4.5}
    assert (await predict(rig, json.dumps(good).encode())).json()["answer"] == {"next": 4.5}
    response = await predict(rig, json.dumps({**good, "romms": 3}).encode())
    assert response.status_code == 422
    assert problem(response)["hint"] == "did you mean 'rooms'?"
    assert workers(rig) == [], "nothing here is dear"


async def test_workers_end_with_their_gateway(cells_engine: str) -> None:
    async with gateway() as rig:
        await rig.take(EntrySpec((ArmSpec("s", cells_engine, CELLS),), edges=LAMPS))
        found = await worker(rig)
        await rig.kill()
    async with asyncio.timeout(60):
        while found.is_running() and found.status() != psutil.STATUS_ZOMBIE:
            await asyncio.sleep(0.02)
