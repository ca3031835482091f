"""A YOLO-like detector, trained here on rendered shapes: its boxes and its scores share one tensor."""

import io
import os
import subprocess
from pathlib import Path

import numpy as np
import numpy.typing as npt
from PIL import Image as Pillow
from PIL import ImageDraw

from bench.models.case import Case, Labelled
from registry.contract.pipeline import Detect, Image, PipelineSpec, Resize
from registry.contract.recipes import Int8Options, Tolerances
from registry.contract.versions import (
    BatchRule,
    Dtype,
    Framework,
    Observable,
    Signature,
    TensorSpec,
    VersionContract,
)

KINDS = ("circle", "square", "triangle")
SIDE, STRIDE = 640, 32
CELLS = SIDE // STRIDE
CALIBRATION, VALIDATION = 48, 400
ROOT = Path(__file__).resolve().parents[2]
TOLERANCES = Tolerances(max_loss=0.02, min_speed_ratio=1.0, min_cosine=0.9, min_sqnr_db=6, max_flip_rate=1)


def drawn(seed: int) -> tuple[npt.NDArray[np.uint8], list[tuple[int, list[float]]]]:
    """Grey pixels [640, 640], and one to four shapes that don't overlap: kind and box."""
    dice = np.random.default_rng(seed)
    picture = Pillow.new("L", (SIDE, SIDE), int(dice.integers(140, 220)))
    pen = ImageDraw.Draw(picture)
    shapes: list[tuple[int, list[float]]] = []
    for _ in range(int(dice.integers(1, 5))):
        size = float(dice.integers(60, 200))
        left, top = (float(one) for one in dice.integers(0, int(SIDE - size), 2))
        box = [left, top, left + size, top + size]
        if any(_meet(box, other) for _, other in shapes):
            continue
        kind, ink = int(dice.integers(0, len(KINDS))), int(dice.integers(0, 90))
        if kind == 0:
            pen.ellipse(box, fill=ink)
        elif kind == 1:
            pen.rectangle(box, fill=ink)
        else:
            pen.polygon([(left + size / 2, top), (box[2], box[3]), (left, box[3])], fill=ink)
        shapes.append((kind, box))
    noisy = np.asarray(picture, np.int16) + dice.integers(-8, 9, (SIDE, SIDE), np.int16)
    return np.clip(noisy, 0, 255).astype(np.uint8), shapes


def _meet(one: list[float], other: list[float]) -> bool:
    return one[0] < other[2] and other[0] < one[2] and one[1] < other[3] and other[1] < one[3]


def rows(count: int, seed: int) -> list[Labelled]:
    found = []
    for at in range(count):
        pixels, shapes = drawn(seed + at)
        stream = io.BytesIO()
        Pillow.fromarray(pixels).save(stream, "PNG")
        label = [{"label": KINDS[kind], "box": box} for kind, box in shapes]
        found.append(Labelled(stream.getvalue(), label))
    return found


def trained(python: Path, path: Path) -> Path:
    """The program of the trained detector, made by the torch environment's `python`. Raises SystemExit."""
    done = subprocess.run(
        [str(python), "-m", "bench.models.shapes_training", str(path)],
        cwd=ROOT,
        env={"PATH": os.environ["PATH"], "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode:
        raise SystemExit(f"the detector could not be trained:\n{done.stderr[-2000:]}")
    return path


def detector(folder: Path) -> Case:
    from tests.environments import worker

    contract = VersionContract(
        signature=Signature(
            inputs=(TensorSpec(name="image", dtype=Dtype.FP32, shape=("n", 1, SIDE, SIDE)),),
            outputs=(TensorSpec(name="found", dtype=Dtype.FP32, shape=("n", CELLS**2, 4 + len(KINDS))),),
        ),
        pipeline=PipelineSpec(
            pre=(
                Image(
                    output="image",
                    colour="grey",
                    resize=Resize(width=SIDE, height=SIDE, interpolation="nearest"),
                    scale=1 / 255,
                ),
            ),
            post=(Detect(boxes="found", form="cxcywh", labels=KINDS, threshold=0.5),),
        ),
        observables=(Observable(name="shapes", kind="count", source="count"),),
        batch=BatchRule(max_rows=4),
    )
    return Case(
        name="yolo-like",
        files={"model.pt2": trained(worker("torch").python, folder / "shapes.pt2")},
        contract=contract,
        calibration=rows(CALIBRATION, 1_000),
        validation=rows(VALIDATION, 2_000),
        naive=Int8Options(
            operators=("Add", "Concat", "Conv", "Mul", "Reshape", "Sigmoid", "Slice", "Transpose"),
            per_channel=False,
        ),
        tolerances=TOLERANCES,
        others={},
        framework=Framework.PYTORCH,
    )
