"""UTF-8 text → token ids, mask and type ids."""

from collections.abc import Sequence

import numpy as np

from registry.contract.pipeline import Padding, Tokenise
from registry.contract.versions import Dtype, Signature
from serving.pipeline.encoders import Encoder, HuggingFace, Vocabulary
from serving.pipeline.errors import PipelineMismatch
from serving.pipeline.files import Files
from serving.pipeline.prepared import Cost, Prepared
from serving.pipeline.specs import input_spec
from serving.runtimes.dtypes import numpy_dtype
from serving.runtimes.errors import InputError
from serving.runtimes.protocol import Array

INLINE_BYTES = 2048
"""Texts up to here take about a tenth of a millisecond."""


class TokeniseStep:
    """One row: INT32 or INT64 [1, length] each."""

    def __init__(self, spec: Tokenise, signature: Signature, files: Files) -> None:
        self._spec = spec
        self._padding = _padding_of(spec, signature)
        self._encoder = _encoder(spec, files)
        self._dtypes = {
            name: numpy_dtype(input_spec(signature, name, "tokenise").dtype) for name in spec.outputs
        }

    def cost(self, size: int) -> Cost:
        return Cost.INLINE if size <= INLINE_BYTES else Cost.WORKER

    def prepare(self, raw: bytes) -> Prepared:
        """Raises InputError: not UTF-8, too long, or nothing in it."""
        tokens = self._encoder.encode(_text(raw, self._spec.most_bytes))
        if self._spec.truncate == "refuse" and len(tokens.ids) > self._spec.max_length:
            raise InputError(
                "text",
                wanted=f"at most {self._spec.max_length} tokens",
                got=f"{len(tokens.ids)} tokens",
                mend="send a shorter text, or send its parts one by one",
            )
        if not tokens.ids:
            raise InputError(
                "text", wanted="at least one token", got="none", mend="send a text with at least one word"
            )
        spec, padding = self._spec, self._padding
        tensors = {spec.ids: self._filled(spec.ids, tokens.ids, padding.id)}
        if spec.mask is not None:
            tensors[spec.mask] = self._filled(spec.mask, [1] * len(tokens.ids), 0)
        if spec.types is not None:
            tensors[spec.types] = self._filled(spec.types, tokens.types, padding.type_id)
        return Prepared(tensors)

    def _filled(self, name: str, values: Sequence[int], fill: int) -> Array:
        padding = self._padding
        length = -(-len(values) // padding.multiple) * padding.multiple
        if padding.fixed:
            length = self._spec.max_length
        row = np.full((1, length), fill, dtype=self._dtypes[name])
        start = 0 if padding.side == "right" else length - len(values)
        row[0, start : start + len(values)] = values
        return row


def _padding_of(spec: Tokenise, signature: Signature) -> Padding:
    """Raises PipelineMismatch where there is no rule: a guess would be another model."""
    for name in spec.outputs:
        tensor = input_spec(signature, name, "tokenise")
        if tensor.dtype not in (Dtype.INT32, Dtype.INT64) or len(tensor.shape) != 2:
            raise PipelineMismatch(
                f"tokenise makes INT32 or INT64 [rows, length], but {name!r} is "
                f"{tensor.dtype.value}{list(tensor.shape)}"
            )
        fixed = spec.padding is not None and spec.padding.fixed
        if isinstance(tensor.shape[1], int) and not (fixed and tensor.shape[1] == spec.max_length):
            raise PipelineMismatch(
                f"{name!r} takes {tensor.shape[1]} tokens always: tokenise has to pad to that max_length"
            )
    if spec.padding is None:
        raise PipelineMismatch(f"tokenise makes {spec.ids!r} of any length and has no padding rule")
    return spec.padding


def _encoder(spec: Tokenise, files: Files) -> Encoder:
    cut = None if spec.truncate == "refuse" else (spec.max_length, spec.truncate)
    if spec.tokenizer == "huggingface":
        return HuggingFace(files, spec.file, "tokenise", spec.special, cut)
    return Vocabulary(files, spec.file, "tokenise", spec.unknown, spec.lowercase, cut)


def _text(raw: bytes, most: int) -> str:
    if len(raw) > most:
        raise InputError(
            "text", wanted=f"at most {most} bytes", got=f"{len(raw)} bytes", mend="send a shorter text"
        )
    try:
        return raw.decode()
    except UnicodeDecodeError as error:
        raise InputError(
            "text",
            wanted="UTF-8",
            got=f"the byte 0x{raw[error.start]:02x} at position {error.start} ({error.reason})",
            mend="encode the text as UTF-8",
        ) from error
