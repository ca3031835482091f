"""Sequences → text: CTC, and token ids."""

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from registry.contract.pipeline import Ctc, TokenText
from registry.contract.versions import Dtype
from serving.pipeline.errors import IllegalAnswer, PipelineMismatch
from serving.pipeline.prepared import Cost
from tests.serving.pipeline.made import behind, outputs, tokenizer, vocabulary

CHARACTERS = ("a", "b", " ")
STEPS = outputs(("y", Dtype.FP32, ("batch", "steps", 4)))
IDS = outputs(("y", Dtype.INT64, ("batch", "length")))


def scores(*rows: list[int], best: float = 0.7) -> dict[str, np.ndarray]:
    """Per row the class that is best at each step."""
    made = np.full((len(rows), len(rows[0]), 4), (1 - best) / 3, np.float32)
    for row, classes in enumerate(rows):
        made[row, np.arange(len(classes)), classes] = best
    return {"y": made}


def test_repeats_are_joined_and_blanks_separate() -> None:
    step = behind(Ctc(output="y", tokens=CHARACTERS), STEPS)
    found = step(scores([0, 1, 1, 0, 1, 2], [1, 3, 2, 2, 0, 0], [0, 0, 0, 0, 0, 0]), 3)
    assert [one["text"] for one in found] == ["aab", "a b", ""]
    assert [one["length"] for one in found] == [3, 3, 0]
    assert [round(float(str(one["score"])), 5) for one in found] == [0.7, 0.7, 1.0]


def test_the_blank_may_be_any_class() -> None:
    step = behind(Ctc(output="y", tokens=CHARACTERS, blank=3), STEPS)
    assert step(scores([0, 0, 3, 0, 2, 1]), 1)[0]["text"] == "aa b"


def test_characters_come_from_a_file(tmp_path: Path) -> None:
    files = {"keys.txt": tmp_path / "keys.txt"}
    files["keys.txt"].write_bytes("ä\r\n字\n \n".encode())
    step = behind(Ctc(output="y", file="keys.txt"), STEPS, files)
    assert step(scores([1, 3, 2]), 1)[0]["text"] == "ä 字"


def test_logits_become_scores() -> None:
    logits = {"y": np.log(scores([1, 0, 2])["y"]) + 40}
    answer = behind(Ctc(output="y", tokens=CHARACTERS, softmax=True), STEPS)(logits, 1)[0]
    assert (answer["text"], round(float(str(answer["score"])), 4)) == ("ab", 0.7)
    with pytest.raises(IllegalAnswer, match="are they logits"):
        behind(Ctc(output="y", tokens=CHARACTERS), STEPS)(logits, 1)


@given(st.lists(st.integers(0, 3), min_size=1, max_size=12))
def test_agrees_with_the_definition(classes: list[int]) -> None:
    previous, wanted = 0, ""
    for one in classes:
        wanted += "" if one in (0, previous) else CHARACTERS[one - 1]
        previous = one
    assert behind(Ctc(output="y", tokens=CHARACTERS), STEPS)(scores(classes), 1)[0]["text"] == wanted


def test_long_sequences_are_for_a_worker() -> None:
    step = behind(Ctc(output="y", tokens=CHARACTERS), STEPS)
    assert step.cost(scores([0, 1])) is Cost.INLINE
    assert step.cost({"y": np.zeros((40, 1000, 4), np.float32)}) is Cost.WORKER


def test_token_ids_become_text_up_to_the_stop(tmp_path: Path) -> None:
    ids = np.array([[2, 4, 5, 3, 6, 6], [4, 1, -1, 9, 3, 0]])
    step = TokenText(output="y", file="tokenizer.json", stop=3)
    found = behind(step, IDS, tokenizer(tmp_path))({"y": ids}, 2)
    assert [one["text"] for one in found] == ["the cat", "the mat"]
    plain = TokenText(output="y", tokenizer="vocabulary", file="vocab.txt", stop=3, skip=(2,), joiner="_")
    assert behind(plain, IDS, vocabulary(tmp_path))({"y": ids}, 2) == [
        {"text": "the_cat", "length": 2},
        {"text": "the_[UNK]_mat", "length": 3},
    ]


def test_scores_over_the_vocabulary_are_decoded_greedily(tmp_path: Path) -> None:
    made = np.zeros((1, 2, 10), np.float32)
    made[0, [0, 1], [4, 9]] = 5
    signature = outputs(("y", Dtype.FP32, ("batch", "length", 10)))
    step = behind(TokenText(output="y", file="tokenizer.json"), signature, tokenizer(tmp_path))
    assert step({"y": made}, 1) == [{"text": "the mat", "length": 2}]


@pytest.mark.parametrize(
    ("step", "said"),
    [
        (Ctc(output="y", tokens=("a",)), "1 characters and a blank, but 'y' has 4 classes"),
        (Ctc(output="y", file="keys.txt"), "no file of the version"),
        (Ctc(output="y", tokens=CHARACTERS, blank=4), "blank is class 4"),
    ],
)
def test_steps_that_do_not_fit_are_refused(step: Ctc, said: str) -> None:
    with pytest.raises(PipelineMismatch, match=said):
        behind(step, STEPS)
