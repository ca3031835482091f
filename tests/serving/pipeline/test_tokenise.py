"""Text → ids, mask and types: as the training code does it, or refused."""

from pathlib import Path

import pytest

from registry.contract.pipeline import Padding, Tokenise
from registry.contract.versions import Dtype, Signature
from serving.pipeline.errors import PipelineMismatch
from serving.pipeline.prepared import Cost
from serving.runtimes.errors import InputError
from tests.serving.pipeline.made import WORDS, before, inputs, row, tokenizer, vocabulary

PAD, UNK, CLS, SEP, THE, CAT, SAT, ON, A, MAT = range(len(WORDS))
NAMES = ("ids", "mask", "types")
SIGNATURE = inputs(*((name, Dtype.INT64, ("batch", "length")) for name in NAMES))
ALONE = Padding(masking="mask")


def step(padding: Padding | None = ALONE, **more: object) -> Tokenise:
    given: dict[str, object] = {"file": "tokenizer.json", "ids": "ids", "mask": "mask", "types": "types"}
    return Tokenise.model_validate({"max_length": 8, "padding": padding, **given, **more})


def ids(text: bytes, folder: Path, made: Tokenise, signature: Signature = SIGNATURE) -> list[int]:
    prepared = before(made, signature, tokenizer(folder)).prepare(text)
    found: list[int] = row(prepared, "ids").tolist()
    return found


def test_a_text_becomes_ids_mask_and_types_of_its_own_length(tmp_path: Path) -> None:
    prepared = before(step(), SIGNATURE, tokenizer(tmp_path)).prepare(b"The cat ZZZ")
    assert {name: row(prepared, name).tolist() for name in NAMES} == {
        "ids": [CLS, THE, CAT, UNK, SEP],
        "mask": [1] * 5,
        "types": [0] * 5,
    }
    assert {tensor.dtype.name for tensor in prepared.tensors.values()} == {"int64"}


@pytest.mark.parametrize(
    ("padding", "wanted"),
    [
        (Padding(masking="mask", fixed=True), [CLS, CAT, SEP, 0, 0, 0, 0, 0]),
        (Padding(masking="mask", fixed=True, id=9, side="left"), [9, 9, 9, 9, 9, CLS, CAT, SEP]),
        (Padding(masking="mask", multiple=4), [CLS, CAT, SEP, 0]),
        (Padding(masking="mask", multiple=3), [CLS, CAT, SEP]),
    ],
)
def test_padding_is_the_contracts(tmp_path: Path, padding: Padding, wanted: list[int]) -> None:
    prepared = before(step(padding), SIGNATURE, tokenizer(tmp_path)).prepare(b"cat")
    assert row(prepared, "ids").tolist() == wanted
    assert row(prepared, "mask").tolist() == [int(one in (CLS, CAT, SEP)) for one in wanted]


def test_what_the_file_says_of_padding_and_truncation_is_not_used(tmp_path: Path) -> None:
    saved = {
        "padding": {"strategy": {"Fixed": 6}, "direction": "Left", "pad_to_multiple_of": None, "pad_id": 7,
                    "pad_type_id": 0, "pad_token": "[PAD]"},
        "truncation": {"direction": "Right", "max_length": 3, "strategy": "LongestFirst", "stride": 0},
    }  # fmt: skip
    prepared = before(step(), SIGNATURE, tokenizer(tmp_path, **saved)).prepare(b"the cat sat")
    assert row(prepared, "ids").tolist() == [CLS, THE, CAT, SAT, SEP]


@pytest.mark.parametrize(("side", "kept"), [("right", [THE, CAT]), ("left", [A, MAT])])
def test_long_texts_are_cut_at_the_side_of_training(tmp_path: Path, side: str, kept: list[int]) -> None:
    made = step(max_length=4, truncate=side)
    assert ids(b"the cat sat on a mat", tmp_path, made) == [CLS, *kept, SEP]


def test_long_texts_are_refused_where_training_never_cut(tmp_path: Path) -> None:
    made = step(max_length=4, truncate="refuse")
    assert ids(b"the cat", tmp_path, made) == [CLS, THE, CAT, SEP]
    with pytest.raises(InputError, match="at most 4 tokens, got 5 tokens"):
        ids(b"the cat sat", tmp_path, made)


@pytest.mark.parametrize(
    ("raw", "said"),
    [
        (b"cat \xff\xfe", "wanted UTF-8, got the byte 0xff at position 4"),
        (b"x" * 101, "at most 100 bytes, got 101 bytes"),
    ],
)
def test_bad_texts_are_refused_with_what_to_do(tmp_path: Path, raw: bytes, said: str) -> None:
    with pytest.raises(InputError, match=said) as refused:
        ids(raw, tmp_path, step(most_bytes=100))
    assert refused.value.mend


def test_a_vocabulary_cuts_at_white_space(tmp_path: Path) -> None:
    made = step(tokenizer="vocabulary", file="vocab.txt", lowercase=True, max_length=3)
    prepare = before(made, SIGNATURE, vocabulary(tmp_path)).prepare
    assert row(prepare(b" The\n cat  zzz mat"), "ids").tolist() == [THE, CAT, UNK]
    assert row(prepare("a café".encode()), "ids").tolist() == [A, UNK]
    with pytest.raises(InputError, match="at least one token"):
        prepare(b" \n ")


def test_only_what_the_model_takes_is_made(tmp_path: Path) -> None:
    signature = inputs(("ids", Dtype.INT32, ("batch", 4)))
    made = step(Padding(masking="id", fixed=True), max_length=4, mask=None, types=None)
    prepared = before(made, signature, tokenizer(tmp_path)).prepare(b"cat")
    assert list(prepared.tensors) == ["ids"]
    assert prepared.tensors["ids"].dtype.name == "int32"


@pytest.mark.parametrize(
    ("made", "signature", "said"),
    [
        (step(None), SIGNATURE, "no padding rule"),
        (step(), inputs(*((name, Dtype.INT64, ("batch", 8)) for name in NAMES)), "takes 8 tokens always"),
        (step(), inputs(*((name, Dtype.FP32, ("batch", "length")) for name in NAMES)), "INT32 or INT64"),
        (step(file="nowhere.json"), SIGNATURE, "'nowhere.json', which is no file of the version"),
        (step(max_length=2), SIGNATURE, "no room for text beside 2 special tokens"),
        (step(types=None), SIGNATURE, "pre-processing makes ids, mask"),
    ],
)
def test_what_does_not_fit_is_refused(
    tmp_path: Path, made: Tokenise, signature: Signature, said: str
) -> None:
    with pytest.raises(PipelineMismatch, match=said):
        before(made, signature, tokenizer(tmp_path))


@pytest.mark.parametrize("content", [b"", b"{}", b"\x80\x04K\x01.", b'{"model": 3}'])
def test_a_file_that_is_no_tokenizer_is_refused(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "tokenizer.json"
    path.write_bytes(content)
    with pytest.raises(PipelineMismatch, match=r"is no tokenizer\.json"):
        before(step(), SIGNATURE, {"tokenizer.json": path})


@pytest.mark.parametrize(
    ("words", "said"),
    [(("a", "b"), "doesn't list the unknown token"), ((*WORDS, "cat"), "lists a token twice")],
)
def test_a_bad_vocabulary_is_refused(tmp_path: Path, words: tuple[str, ...], said: str) -> None:
    made = step(tokenizer="vocabulary", file="vocab.txt")
    with pytest.raises(PipelineMismatch, match=said):
        before(made, SIGNATURE, vocabulary(tmp_path, words))


def test_long_texts_are_for_a_worker(tmp_path: Path) -> None:
    made = before(step(), SIGNATURE, tokenizer(tmp_path))
    assert (made.cost(100), made.cost(100_000)) == (Cost.INLINE, Cost.WORKER)
