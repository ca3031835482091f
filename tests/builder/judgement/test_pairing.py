"""Pairs of answers in every metric, and bounds that hold as often as they say."""

import json
from collections.abc import Callable, Sequence

import numpy as np
import pytest

from builder.data.judging import Judgement
from builder.judgement.matching import Box
from builder.judgement.metrics import Judge, judge_of
from builder.judgement.pairing import measured, pair_rows
from builder.steps.step import Refused
from registry.contract.pipeline import (
    Classify,
    Ctc,
    Detect,
    PipelineSpec,
    PostStep,
    Regress,
    Tags,
    TokenText,
)
from registry.contract.versions import MetricName, Signature, VersionContract

GENERATOR = np.random.default_rng(21)


def judge(step: PostStep, metric: MetricName | None = None) -> Judge:
    found = judge_of(
        VersionContract(
            signature=Signature(inputs=(), outputs=()), pipeline=PipelineSpec(post=(step,)), metric=metric
        )
    )
    assert found is not None
    return found


LABELS = judge(Classify(output="y"))
NUMBERS = judge(Regress(output="y"))
BOXES = judge(Detect(boxes="b"))


def labelled(truth: str | None, label: str | None) -> Judgement:
    return Judgement(key="k", fingerprint="f", truth=truth, label=label, legal=label is not None)


def number(value: float | None, truth: float | None = None) -> Judgement:
    told = None if truth is None else str(truth)
    return Judgement(key="k", fingerprint="f", truth=told, number=value, legal=value is not None)


def boxed(truth: Sequence[Box], found: Sequence[Box]) -> Judgement:
    told = json.dumps([{"label": box.label, "box": box.edges} for box in truth])
    return Judgement(key="k", fingerprint="f", truth=told, boxes=tuple(found))


def box(x: float, label: str = "lamp", score: float = 0.9) -> Box:
    return Box(label=label, score=score, edges=(x, 0, x + 10, 10))


# ── Labels and texts ──


def test_labels_are_counted_by_who_is_right() -> None:
    sources = [labelled("a", "a"), labelled("a", "b"), labelled("a", "b"), labelled("a", "a")]
    engines = [labelled("a", "b"), labelled("a", "a"), labelled("a", "c"), labelled("a", "a")]
    found = pair_rows(LABELS, sources, engines)
    assert (found.metric, found.source, found.engine) == ("accuracy", 0.5, 0.5)
    assert (found.gained, found.lost, found.flips, found.loss) == (1, 1, 3, 0)


def test_one_missing_label_makes_the_set_unlabelled() -> None:
    sources = [labelled("a", "a"), labelled(None, "a")]
    found = pair_rows(LABELS, sources, sources)
    assert (found.metric, found.flips) == (None, 0)
    assert measured(LABELS, sources) is None


@pytest.mark.parametrize("step", [Ctc(output="y"), TokenText(output="y", file="vocabulary.txt")])
def test_texts_are_right_as_a_whole_or_not(step: PostStep) -> None:
    sources = [labelled("word", "word"), labelled("", ""), labelled("two", "too")]
    engines = [labelled("word", "w0rd"), labelled("", ""), labelled("two", None)]
    found = pair_rows(judge(step), sources, engines)
    assert (found.metric, found.source, found.engine) == ("exact_match", 2 / 3, 1 / 3)
    assert (found.lost, found.flips, found.illegal) == (1, 2, 1)


# ── Numbers ──


def test_errors_are_compared_as_a_part_of_the_sources() -> None:
    truths = [float(at) for at in range(100)]
    sources = [number(truth + 2, truth) for truth in truths]
    engines = [number(truth - 2.5, truth) for truth in truths]
    found = pair_rows(NUMBERS, sources, engines)
    assert (found.metric, found.source, found.engine) == ("mae", 2.0, 2.5)
    assert found.loss == pytest.approx(0.25)
    assert (found.gained, found.lost) == (0, 100)


def test_rmse_is_by_the_contract_and_feels_the_one_that_is_far_off() -> None:
    sources = [number(float(at) + 1, float(at)) for at in range(100)]
    engines = [*sources[:-1], number(99.0 + 11, 99.0)]
    mean = pair_rows(NUMBERS, sources, engines)
    root = pair_rows(judge(Regress(output="y"), "rmse"), sources, engines)
    assert mean.loss == pytest.approx(0.10)
    assert root.loss == pytest.approx(np.sqrt((99 + 121) / 100) - 1)
    assert root.upper > mean.upper


def test_a_source_without_errors_is_not_divided_by() -> None:
    """An error of less than a hundredth of the truths' spread (P5 to P95) is measured against that."""
    sources = [number(float(at), float(at)) for at in range(101)]
    engines = [number(at + 0.009, float(at)) for at in range(101)]
    assert pair_rows(NUMBERS, sources, engines).loss == pytest.approx(0.01)


def test_no_legal_answer_is_as_far_off_as_truths_are_from_each_other() -> None:
    sources = [number(float(at) + 1, float(at)) for at in range(11)]
    found = pair_rows(NUMBERS, sources, [number(None, 0.0), *sources[1:]])
    assert found.illegal == 1
    assert found.engine == pytest.approx(20 / 11)


def test_a_number_flips_when_it_moves_by_more_than_a_hundredth_of_the_spread() -> None:
    sources = [number(float(at)) for at in range(101)]
    near, far = [[number(at + by) for at in range(101)] for by in (0.5, 1.0)]
    assert pair_rows(NUMBERS, sources, near).flips == 0
    assert pair_rows(NUMBERS, sources, far).flips == 101


def test_a_label_that_is_no_number_is_refused_by_its_row() -> None:
    with pytest.raises(Refused, match=r"row 'k'.*write a number"):
        pair_rows(NUMBERS, [labelled("cat", "1")], [labelled("cat", "1")])


# ── Boxes and tags ──


def test_boxes_are_right_where_they_overlap_by_half() -> None:
    truth = [box(0), box(30), box(60, "sign")]
    found = [box(3), box(38), box(60, "lamp"), box(90)]
    assert measured(BOXES, [boxed(truth, found)]) == pytest.approx(2 * 1 / (2 * 1 + 3 + 2))
    assert measured(BOXES, [boxed([], [])]) == 1.0


def test_a_box_is_found_once() -> None:
    assert measured(BOXES, [boxed([box(0)], [box(0), box(1, score=0.8)])]) == pytest.approx(2 / 3)


def test_average_precision_by_hand() -> None:
    """Hits by score: right, wrong, right of 3 boxes: ⅓·1 + ⅓·⅔; a label without hits counts as 0."""
    rows = [
        boxed([box(0), box(30), box(60)], [box(0, score=0.9), box(90, score=0.8), box(30, score=0.7)]),
        boxed([box(0, "sign")], []),
    ]
    precise = judge(Detect(boxes="b"), "ap50")
    assert measured(precise, rows) == pytest.approx((1 / 3 + 2 / 9 + 0) / 2)
    found = pair_rows(precise, rows, rows)
    assert found.loss == 0 < found.upper


def test_tags_are_boxes_in_one_place() -> None:
    step = judge(Tags(output="y"))
    truth = json.dumps(["red", "big"])
    row = Judgement(key="k", fingerprint="f", truth=truth, boxes=(Box(label="red"), Box(label="old")))
    assert measured(step, [row]) == pytest.approx(0.5)


def test_a_box_that_is_gone_is_a_flip_also_without_labels() -> None:
    sources = [Judgement(key="k", fingerprint="f", truth=None, boxes=(box(0), box(30)))]
    engines = [Judgement(key="k", fingerprint="f", truth=None, boxes=(box(1),))]
    assert pair_rows(BOXES, sources, engines).flips == 1
    assert pair_rows(BOXES, sources, sources).flips == 0


def test_a_metric_that_no_step_has_is_refused() -> None:
    with pytest.raises(Refused, match="judged by rmse, and its post-processing has: accuracy"):
        judge(Classify(output="y"), "rmse")


# ── Bounds: how often the true loss is above them, over seeded samples ──

Rows = tuple[list[Judgement], list[Judgement]]


def regressor(rows: int, spoilt: float) -> Rows:
    """Errors of source and engine are made by one truth; some of the engine's answers are far off."""
    truth = GENERATOR.normal(0, 10, rows)
    before = truth + GENERATOR.laplace(0, 1, rows)
    after = before + GENERATOR.normal(0, 0.2, rows) + 4 * (GENERATOR.random(rows) < spoilt)
    return (
        [number(one, true) for one, true in zip(before, truth, strict=True)],
        [number(one, true) for one, true in zip(after, truth, strict=True)],
    )


def detector(rows: int, spoilt: float) -> Rows:
    """One to four boxes a picture, nine of ten found; the engine loses each box that was with `spoilt`."""
    sources, engines = [], []
    for _ in range(rows):
        truth = [box(30.0 * at) for at in range(int(GENERATOR.integers(1, 5)))]
        found = [one for one in truth if GENERATOR.random() < 0.9]
        sources.append(boxed(truth, found))
        engines.append(boxed(truth, [one for one in found if GENERATOR.random() >= spoilt]))
    return sources, engines


def loss_of(by: Judge, rows: Rows) -> float:
    source, engine = (measured(by, one) for one in rows)
    assert source is not None and engine is not None
    return (engine - source) / source if by is NUMBERS else source - engine


@pytest.mark.parametrize(
    ("by", "sample", "rows", "spoilt"),
    [(NUMBERS, regressor, 300, 0.02), (BOXES, detector, 150, 0.005)],
)
def test_the_true_loss_is_rarely_above_its_bound(
    by: Judge, sample: Callable[[int, float], Rows], rows: int, spoilt: float
) -> None:
    """By its word in 1 of 20: of 50 samples 2 or 3, and 8 only once in 300 runs."""
    true = loss_of(by, sample(6000, spoilt))
    above = sum(pair_rows(by, *sample(rows, spoilt)).upper < true for _ in range(50))
    assert above <= 8


def test_a_loss_that_no_row_shows_is_bounded_as_clopper_and_pearson_bound_it() -> None:
    """One box a picture, all of them found by both: 3 in so many rows is what can't be excluded, and costs
    half as much of F1."""
    rows = [boxed([box(0)], [box(0)]) for _ in range(299)]
    assert pair_rows(BOXES, rows, rows).upper == pytest.approx(0.005, abs=0.001)
