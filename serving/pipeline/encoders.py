"""Text → token ids and back, by a tokenizer.json or by a list of tokens."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, Protocol

from serving.pipeline.errors import PipelineMismatch
from serving.pipeline.files import Files, read_file, read_lines

Kind = Literal["huggingface", "vocabulary"]


@dataclass(frozen=True, slots=True)
class Tokens:
    ids: Sequence[int]
    types: Sequence[int]


class Encoder(Protocol):
    def encode(self, text: str) -> Tokens: ...


class Decoder(Protocol):
    def decode(self, ids: Sequence[int]) -> str: ...


class HuggingFace:
    """A tokenizer.json. What it says of padding and truncation is not used: that is the contract's."""

    def __init__(
        self,
        files: Files,
        path: str,
        step: str,
        special: bool = True,
        cut: tuple[int, Literal["left", "right"]] | None = None,
    ) -> None:
        """`cut`: the most tokens, and the side where more are cut off. Raises PipelineMismatch."""
        try:
            import tokenizers
        except ImportError as error:
            raise PipelineMismatch(f"{step} needs the package tokenizers: install it here") from error
        try:
            self._tokenizer = tokenizers.Tokenizer.from_buffer(read_file(files, path, step))
            self._tokenizer.no_padding()
            self._tokenizer.no_truncation()
            around = self._tokenizer.num_special_tokens_to_add(False) if special else 0
            if cut is not None and cut[0] <= around:
                raise PipelineMismatch(
                    f"{step}: max_length {cut[0]} leaves no room for text beside {around} special tokens"
                )
            if cut is not None:
                self._tokenizer.enable_truncation(cut[0], direction=cut[1])
        except PipelineMismatch:
            raise
        except BaseException as error:
            # The library raises bare Exception, and a panic in it is not even one.
            if not isinstance(error, Exception) and type(error).__name__ != "PanicException":
                raise
            raise PipelineMismatch(f"{step}: {path!r} is no tokenizer.json: {error}") from error
        self._special = special

    def encode(self, text: str) -> Tokens:
        found = self._tokenizer.encode(text, add_special_tokens=self._special)
        return Tokens(found.ids, found.type_ids)

    def decode(self, ids: Sequence[int]) -> str:
        return str(self._tokenizer.decode(list(ids), skip_special_tokens=True))


class Vocabulary:
    """One token a line; texts are cut at white space."""

    def __init__(
        self,
        files: Files,
        path: str,
        step: str,
        unknown: str | None = None,
        lowercase: bool = False,
        cut: tuple[int, Literal["left", "right"]] | None = None,
        joiner: str = " ",
    ) -> None:
        """`unknown` None: only for decoding. Raises PipelineMismatch."""
        self._tokens = read_lines(files, path, step)
        self._ids = {token: at for at, token in enumerate(self._tokens)}
        if len(self._ids) != len(self._tokens):
            raise PipelineMismatch(f"{step}: {path!r} lists a token twice")
        if unknown is not None and unknown not in self._ids:
            raise PipelineMismatch(f"{step}: {path!r} doesn't list the unknown token {unknown!r}")
        self._unknown = self._ids[unknown] if unknown is not None else 0
        self._lowercase = lowercase
        self._cut = cut
        self._joiner = joiner

    def encode(self, text: str) -> Tokens:
        words = (text.lower() if self._lowercase else text).split()
        ids = [self._ids.get(word, self._unknown) for word in words]
        if self._cut is not None and len(ids) > self._cut[0]:
            ids = ids[: self._cut[0]] if self._cut[1] == "right" else ids[-self._cut[0] :]
        return Tokens(ids, [0] * len(ids))

    def decode(self, ids: Sequence[int]) -> str:
        size = len(self._tokens)
        return self._joiner.join(self._tokens[at] if 0 <= at < size else "\ufffd" for at in ids)
