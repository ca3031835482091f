"""PP-OCRv4's recogniser on rendered words, judged by exact words."""

import io
import random
from pathlib import Path

import numpy as np
import onnx
from PIL import Image as Pillow
from PIL import ImageDraw, ImageFont

from bench.models.case import Case, Labelled, Trial
from registry.contract.pipeline import Ctc, Image, PipelineSpec, Resize
from registry.contract.recipes import Int8Options, Precision, Tolerances
from registry.contract.versions import BatchRule, Dtype, Signature, TensorSpec, VersionContract
from tests.assets import member

RAPIDOCR = "rapidocr-onnxruntime==1.4.4"
RECOGNISER = "rapidocr_onnxruntime/models/ch_PP-OCRv4_rec_infer.onnx"
WIDTH, HEIGHT = 192, 48
CALIBRATION, VALIDATION = 64, 3000
TOLERANCES = Tolerances(max_loss=0.01, min_speed_ratio=1.3, min_cosine=0.9, min_sqnr_db=6, max_flip_rate=1)
LETTERS = "abcdefghijklmnopqrstuvwxyz"
DIGITS = "0123456789"


def recogniser(folder: Path) -> Case:
    """Its characters are a line each of the metadata."""
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
        tolerances=TOLERANCES,
        others={
            "per_tensor": Trial(
                Precision.INT8_STATIC, Int8Options(operators=("Conv",), per_channel=False), TOLERANCES
            )
        },
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
