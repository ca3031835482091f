"""Signatures, tokenizers and pictures for pipeline tests."""

import io
import json
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image as Pillow

from registry.contract.pipeline import PipelineSpec, PostStep, PreStep
from registry.contract.versions import Dtype, Signature, TensorSpec
from serving.pipeline.files import NO_FILES, Files
from serving.pipeline.prepared import Prepared
from serving.pipeline.processing import Postprocess, Preprocess, post, pre

WORDS = ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "the", "cat", "sat", "on", "a", "mat")


def inputs(*specs: tuple[str, Dtype, tuple[int | str, ...]]) -> Signature:
    return Signature(inputs=tuple(TensorSpec(name=n, dtype=d, shape=s) for n, d, s in specs), outputs=())


def outputs(*specs: tuple[str, Dtype, tuple[int | str, ...]]) -> Signature:
    return Signature(inputs=(), outputs=tuple(TensorSpec(name=n, dtype=d, shape=s) for n, d, s in specs))


def before(step: PreStep, signature: Signature, files: Files = NO_FILES) -> Preprocess:
    return pre(PipelineSpec(pre=(step,)), signature, files)


def behind(step: PostStep, signature: Signature, files: Files = NO_FILES) -> Postprocess:
    return post(PipelineSpec(post=(step,)), signature, files)


def vocabulary(folder: Path, words: tuple[str, ...] = WORDS) -> Files:
    path = folder / "vocab.txt"
    path.write_text("".join(f"{word}\n" for word in words))
    return {"vocab.txt": path}


def tokenizer(folder: Path, **more: Any) -> Files:
    """A tokenizer.json of whole words: [CLS] … [SEP]. `more` of its fields, as it may be saved with."""
    ids = {word: at for at, word in enumerate(WORDS)}
    special = [
        {"id": ids[word], "content": word, "special": True, "single_word": False, "lstrip": False,
         "rstrip": False, "normalized": False}
        for word in ("[PAD]", "[UNK]", "[CLS]", "[SEP]")
    ]  # fmt: skip
    piece = {"SpecialToken": {"id": "[CLS]", "type_id": 0}}, {"SpecialToken": {"id": "[SEP]", "type_id": 0}}
    text = {"Sequence": {"id": "A", "type_id": 0}}
    document = {
        "version": "1.0",
        "truncation": None,
        "padding": None,
        "added_tokens": special,
        "normalizer": {"type": "Lowercase"},
        "pre_tokenizer": {"type": "Whitespace"},
        "post_processor": {
            "type": "TemplateProcessing",
            "single": [piece[0], text, piece[1]],
            "pair": [piece[0], text, piece[1]],
            "special_tokens": {
                word: {"id": word, "ids": [ids[word]], "tokens": [word]} for word in ("[CLS]", "[SEP]")
            },
        },
        "decoder": None,
        "model": {"type": "WordLevel", "vocab": ids, "unk_token": "[UNK]"},
        **more,
    }
    path = folder / "tokenizer.json"
    path.write_text(json.dumps(document))
    return {"tokenizer.json": path}


def picture(width: int, height: int, seed: int = 1) -> Any:
    """uint8[height, width, 3]: noise over a slope, so that every pixel and channel differs."""
    generator = np.random.default_rng(seed)
    slope = np.linspace(0, 160, width)[None, :, None] + np.array([0, 30, 60])
    return (slope + generator.integers(0, 36, (height, width, 3))).astype(np.uint8)


def png(pixels: Any, mode: str | None = None) -> bytes:
    stream = io.BytesIO()
    image = Pillow.fromarray(pixels)
    (image.convert(mode) if mode else image).save(stream, "PNG")
    return stream.getvalue()


def jpeg(pixels: Any, **options: Any) -> bytes:
    stream = io.BytesIO()
    Pillow.fromarray(pixels).save(stream, "JPEG", quality=95, **options)
    return stream.getvalue()


def row(prepared: Prepared, name: str) -> Any:
    return prepared.tensors[name][0]
