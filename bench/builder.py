"""Real models through the builder: naive INT8 recipes are refused, and the search finds one that holds.

Each model is built twice: by its naive recipe, and by a search that begins with it. Metrics are those of the
builder's own validation; speed is that of its bench step, alternately with the source in one process.
"""

import io
import json
import os
import random
import sys
import tarfile
import tempfile
import threading
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from PIL import Image as Pillow
from PIL import ImageDraw, ImageFont

from builder.isolation import isolate
from registry.contract.datasets import DatasetKind
from registry.contract.engines import Engine
from registry.contract.pipeline import Ctc, Image, PipelineSpec, Resize
from registry.contract.recipes import Int8Options, Precision, Recipe, SearchOptions, Tolerances
from registry.contract.versions import BatchRule, DatasetRef, Dtype, Signature, TensorSpec, VersionContract
from slipway.client import Client
from slipway.demo.service import service
from tests.assets import member
from tests.builder import pictures

RAPIDOCR = "rapidocr-onnxruntime==1.4.4"
RECOGNISER = "rapidocr_onnxruntime/models/ch_PP-OCRv4_rec_infer.onnx"
WAIT_S = 7200.0
WIDTH, HEIGHT = 192, 48
CALIBRATION, VALIDATION = 64, 1500
LETTERS = "abcdefghijklmnopqrstuvwxyz"
DIGITS = "0123456789"


@dataclass(frozen=True, slots=True)
class Labelled:
    raw: bytes
    label: str


@dataclass(frozen=True, slots=True)
class Case:
    """A model with its rows, and the recipe that somebody would try first."""

    name: str
    files: dict[str, Path]
    contract: VersionContract
    calibration: Sequence[Labelled]
    validation: Sequence[Labelled]
    naive: Int8Options
    tolerances: Tolerances


def run(output: str = "table") -> dict[str, Any]:
    """Measures and returns `{models: […]}`; prints one line per model. `output`: `json` or `table`."""
    models = []
    with tempfile.TemporaryDirectory(prefix="bench-") as folder:
        # PostgreSQL may run as another user.
        Path(folder).chmod(0o755)
        with service(Path(folder) / "home", _say, nodes=0) as up:
            for case in (recogniser(Path(folder)),):
                models.append(_measured(up.client, case, Path(folder)))
                if output != "json":
                    print(json.dumps(models[-1], indent=2))
        return {"models": models, "calibration": _calibration(Path(folder))}


def _calibration(folder: Path) -> dict[str, float]:
    """Peak memory of the calibrate step, both passes and all calibrators, on few and on many pictures of
    320 × 320."""
    model = pictures.model(folder / "pictures.onnx")
    peaks = {}
    for rows in (10, 1000):
        made = pictures.rows(folder / f"pictures-{rows}", rows)
        outcome = isolate.run(
            [
                sys.executable,
                "-P",
                "-m",
                "builder.steps",
                *pictures.calibrate(model, made, folder / "ranges"),
            ],
            folder=folder,
            log=folder / "calibrate.log",
            limits=isolate.Limits(timeout_s=WAIT_S, memory_bytes=8192 * isolate.MIB),
            environment={"PATH": os.environ["PATH"]},
            heard=lambda text: None,
            stop=threading.Event(),
        )
        if outcome.ending is not isolate.Ending.OK:
            raise SystemExit(f"calibrating {rows} rows: {outcome.reason}")
        peaks[rows] = outcome.peak_memory_bytes / isolate.MIB
    return {"peak_mib_10": peaks[10], "peak_mib_1000": peaks[1000], "ratio": peaks[1000] / peaks[10]}


def _say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


def recogniser(folder: Path) -> Case:
    """PP-OCRv4's recogniser on rendered words, judged by exact words."""
    content = member(RAPIDOCR, RECOGNISER)
    model = onnx.load_from_string(content)
    (characters,) = (one.value for one in model.metadata_props if one.key == "character")
    files = {"model.onnx": folder / "rec.onnx", "characters.txt": folder / "characters.txt"}
    files["model.onnx"].write_bytes(content)
    # The last class is the space, which is no line of the metadata.
    files["characters.txt"].write_text("\n".join([*characters.split("\n"), " "]) + "\n")
    ins, outs = model.graph.input[0].name, model.graph.output[0].name
    contract = VersionContract(
        signature=Signature(
            inputs=(TensorSpec(name=ins, dtype=Dtype.FP32, shape=("n", 3, HEIGHT, WIDTH)),),
            outputs=(TensorSpec(name=outs, dtype=Dtype.FP32, shape=("n", "steps", 6625)),),
        ),
        pipeline=PipelineSpec(
            pre=(
                Image(
                    output=ins,
                    colour="bgr",
                    resize=Resize(width=WIDTH, height=HEIGHT, fit="height"),
                    scale=1 / 255,
                    mean=(0.5,),
                    std=(0.5,),
                    fill_normalised=True,
                ),
            ),
            post=(Ctc(output=outs, file="characters.txt"),),
        ),
        batch=BatchRule(max_rows=4),
    )
    return Case(
        name="ocr-recogniser",
        files=files,
        contract=contract,
        calibration=words(CALIBRATION, 2),
        validation=words(VALIDATION, 1),
        naive=Int8Options(operators=_operators(model), per_channel=False),
        tolerances=Tolerances(
            max_loss=0.01, min_speed_ratio=1.3, min_cosine=0.9, min_sqnr_db=6, max_flip_rate=1
        ),
    )


def _operators(model: onnx.ModelProto) -> tuple[str, ...]:
    """All that can be quantised: what a recipe without a thought asks for."""
    able = {
        "Add",
        "AveragePool",
        "Concat",
        "Conv",
        "GlobalAveragePool",
        "MatMul",
        "Mul",
        "Sigmoid",
        "Softmax",
    }
    return tuple(sorted(able & {node.op_type for node in model.graph.node}))


def words(count: int, seed: int) -> list[Labelled]:
    """Words and numbers as pictures: sizes, greys and noise vary, always the same ones."""
    dice = random.Random(seed)
    found = []
    for _ in range(count):
        letters = LETTERS if dice.random() < 0.6 else DIGITS
        word = "".join(dice.choice(letters) for _ in range(dice.randint(3, 7)))
        font = ImageFont.load_default(dice.randint(26, 40))
        _, _, right, bottom = font.getbbox(word)
        paper = dice.randint(190, 255)
        picture = Pillow.new("RGB", (int(right) + 12, int(bottom) + 10), (paper,) * 3)
        ImageDraw.Draw(picture).text((6, 4), word, fill=(dice.randint(0, 60),) * 3, font=font)
        noise = np.random.default_rng(dice.randrange(1 << 30)).normal(
            0, dice.uniform(0, 6), picture.size[::-1]
        )
        pixels = np.clip(np.asarray(picture, np.float64) + noise[:, :, np.newaxis], 0, 255).astype(np.uint8)
        stream = io.BytesIO()
        Pillow.fromarray(pixels).save(stream, "PNG")
        found.append(Labelled(stream.getvalue(), word))
    return found


def _dataset(
    client: Client, name: str, kind: DatasetKind, rows: Sequence[Labelled], folder: Path
) -> DatasetRef:
    room = folder / name
    room.mkdir()
    with tarfile.open(room / "rows.tar", "w") as archive:
        for at, row in enumerate(rows):
            entry = tarfile.TarInfo(f"row-{at:05d}")
            entry.size = len(row.raw)
            archive.addfile(entry, io.BytesIO(row.raw))
    lines = [json.dumps({"key": f"row-{at:05d}", "label": row.label}) for at, row in enumerate(rows)]
    (room / "index.jsonl").write_text("\n".join(lines) + "\n")
    made = client.dataset(name, kind, "raw", {"rows.tar": room / "rows.tar"}, room / "index.jsonl", len(rows))
    return made.ref


def _measured(client: Client, case: Case, folder: Path) -> dict[str, Any]:
    version = client.register(case.name, case.files, case.contract)
    recipe = Recipe(
        precisions=(Precision.INT8_STATIC,),
        calibration=_dataset(client, f"{case.name}-cal", "calibration", case.calibration, folder),
        validation=_dataset(client, f"{case.name}-val", "validation", case.validation, folder),
        int8=case.naive,
        tolerances=case.tolerances,
    )
    name = f"{version.model}@{version.number}"
    naive = _built(client, name, recipe)
    convolutions = case.naive.model_copy(update={"operators": ("Conv",)})
    coarse = _built(client, name, recipe.model_copy(update={"int8": convolutions}))
    searched = _built(client, name, recipe.model_copy(update={"search": SearchOptions(candidates=32)}))
    return _row(case, naive, coarse, searched)


def _built(client: Client, version: str, recipe: Recipe) -> Engine:
    build = client.build(version, recipe, wait=WAIT_S)
    if not build.engines:
        raise SystemExit(f"{version} could not be built: {build.reason}")
    engine = build.engines[0]
    for gate in engine.gates:
        _say(f"{version} {gate.name} {gate.outcome}: {gate.reason}")
    return engine


def _row(case: Case, naive: Engine, coarse: Engine, searched: Engine) -> dict[str, Any]:
    judged, bench, search = searched.validation, searched.bench, searched.search
    assert search is not None
    _say(search.says)
    return {
        "name": case.name,
        "source_metric": judged.source_metric if judged else None,
        "engine_metric": judged.engine_metric if judged else None,
        "loss_upper": judged.loss_upper if judged else None,
        "rows": judged.rows if judged else None,
        "accepted": searched.releasable,
        "naive_accepted": naive.releasable,
        "naive_culprit": naive.bisection.says if naive.bisection else None,
        "per_tensor_accepted": coarse.releasable,
        "per_tensor_culprit": coarse.bisection.says if coarse.bisection else None,
        "recipe": search.says,
        "excluded": list(searched.excluded),
        "tried": search.tried,
        "frontier": [one.model_dump(mode="json") for one in search.candidates if one.frontier],
        "candidates": [one.model_dump(mode="json", exclude={"operators"}) for one in search.candidates],
        "speed_ratio": bench.speed_ratio if bench else None,
        "size_ratio": bench.size_ratio if bench else None,
    }
