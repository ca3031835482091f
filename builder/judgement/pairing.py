"""Source and engine on the same rows: what each is worth in the contract's metric, and what the engine loses.

Pure; rows in, figures out.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import NamedTuple, assert_never

import numpy as np

from builder.data.judging import Judgement
from builder.judgement import bounds, detections, resampling
from builder.judgement.matching import Marks, match
from builder.judgement.metrics import Judge
from builder.judgement.resampling import Array, Loss
from registry.contract.versions import MetricName

# A number has changed when it moved by more than this part of the source's spread (P5 to P95) over all rows.
# An error below this part of the truths' spread counts as none where errors are compared.
VALUE_TOLERANCE = 0.01


@dataclass(frozen=True, slots=True)
class Pairing:
    """`metric` None: the rows have no labels (or the answers no metric); what counts are `flips` then.

    `gained`: rows that are better in the engine; `lost`: in the source. `loss` is what was seen, `upper` its
    one-sided 95 % bound: of the metric's value, for errors as a part of the source's.
    """

    rows: int
    metric: MetricName | None
    source: float
    engine: float
    gained: int
    lost: int
    flips: int
    loss: float
    upper: float
    illegal: int = 0


def pair_rows(judge: Judge | None, sources: Sequence[Judgement], engines: Sequence[Judgement]) -> Pairing:
    """By the judge's metric where every row has a true label. Raises Refused for labels that are none."""
    spreads = _spreads(sources)
    pairs = list(zip(sources, engines, strict=True))
    flips = sum(_changed(source, engine, spreads) for source, engine in pairs)
    illegal = sum(source.legal and not engine.legal for source, engine in pairs)
    if judge is None or not _labelled(sources):
        return _unlabelled(len(sources), flips, illegal)
    match judge.metric:
        case "accuracy" | "exact_match":
            return _of_right(judge, pairs, flips, illegal)
        case "f1" | "ap50":
            return _of_boxes(judge, pairs, flips, illegal)
        case "mae" | "rmse":
            return _of_errors(judge, pairs, flips, illegal)
        case _:
            assert_never(judge.metric)


def measured(judge: Judge | None, rows: Sequence[Judgement]) -> float | None:
    """The metric's value; None where not every row has a true label. Raises Refused for unreadable labels."""
    if judge is None or not _labelled(rows):
        return None
    match judge.metric:
        case "accuracy" | "exact_match":
            return sum(one.said == one.truth for one in rows) / len(rows)
        case "f1" | "ap50":
            return _figure(judge, [_marks(judge, one) for one in rows])
        case "mae" | "rmse":
            return _mean(judge, _errors(np.array([_number(judge, one) for one in rows]), rows))
        case _:
            assert_never(judge.metric)


def _labelled(rows: Sequence[Judgement]) -> bool:
    return bool(rows) and all(one.truth is not None for one in rows)


def _mean(judge: Judge, errors: Array) -> float:
    return float(np.sqrt((errors**2).mean()) if judge.metric == "rmse" else errors.mean())


def _figure(judge: Judge, rows: Sequence[Marks]) -> float:
    return float(_measure(judge)(rows)(np.ones((1, len(rows))))[0])


def _measure(judge: Judge) -> Callable[[Sequence[Marks]], detections.Score]:
    return detections.f1 if judge.metric == "f1" else detections.average_precision


def _unlabelled(rows: int, flips: int, illegal: int) -> Pairing:
    upper = bounds.clopper_pearson_upper(flips, rows) if rows else 1.0
    return Pairing(rows, None, 0.0, 0.0, 0, 0, flips, flips / max(rows, 1), upper, illegal)


Pairs = Sequence[tuple[Judgement, Judgement]]


def _of_right(judge: Judge, pairs: Pairs, flips: int, illegal: int) -> Pairing:
    before = np.array([source.said == source.truth for source, _ in pairs])
    after = np.array([engine.said == engine.truth for _, engine in pairs])
    rows, gained, lost = len(pairs), int((after & ~before).sum()), int((before & ~after).sum())
    return Pairing(
        rows=rows,
        metric=judge.metric,
        source=float(before.mean()),
        engine=float(after.mean()),
        gained=gained,
        lost=lost,
        flips=flips,
        loss=(lost - gained) / rows,
        upper=bounds.tango_upper(gained, lost, rows),
        illegal=illegal,
    )


def _of_boxes(judge: Judge, pairs: Pairs, flips: int, illegal: int) -> Pairing:
    before = [_marks(judge, source) for source, _ in pairs]
    after = [_marks(judge, engine) for _, engine in pairs]
    # The row that a loss is imagined on: an ordinary one of those that the source found something in.
    found = sorted((row for row in before if row.right), key=lambda row: row.right)
    last = found[len(found) // 2] if found else Marks((), ())
    measure = _measure(judge)
    was, became = measure([*before, last]), measure([*after, Marks((), last.there)])
    worth = [(_worth(left), _worth(right)) for left, right in zip(before, after, strict=True)]
    moved = sum(right > left for left, right in worth), sum(right < left for left, right in worth)
    figures = _Figures(judge.metric, len(pairs), _figure(judge, before), _figure(judge, after), *moved)
    return _resampled(figures, lambda given: was(given) - became(given), flips, illegal)


def _of_errors(judge: Judge, pairs: Pairs, flips: int, illegal: int) -> Pairing:
    truths = np.array([_number(judge, source) for source, _ in pairs])
    low, high = np.percentile(truths, (5, 95))
    before = _errors(truths, [source for source, _ in pairs])
    after = _errors(truths, [engine for _, engine in pairs])
    ordinary, widest = float(before.mean()), float(np.abs(after - before).max())
    joined = np.append(before, ordinary), np.append(after, ordinary + widest)
    make = resampling.root_mean_square_loss if judge.metric == "rmse" else resampling.mean_error_loss
    moved = int((after < before).sum()), int((after > before).sum())
    figures = _Figures(judge.metric, len(pairs), _mean(judge, before), _mean(judge, after), *moved)
    return _resampled(figures, make(*joined, VALUE_TOLERANCE * float(high - low)), flips, illegal)


class _Figures(NamedTuple):
    metric: MetricName
    rows: int
    source: float
    engine: float
    gained: int
    lost: int


def _resampled(figures: _Figures, loss: Loss, flips: int, illegal: int) -> Pairing:
    """`loss` is over all rows and the one that is imagined."""
    rows = figures.rows + 1
    seen = resampling.seen(loss, rows)
    return Pairing(
        rows=figures.rows,
        metric=figures.metric,
        source=figures.source,
        engine=figures.engine,
        gained=figures.gained,
        lost=figures.lost,
        flips=flips,
        loss=seen,
        upper=max(seen, resampling.upper(loss, rows)),
        illegal=illegal,
    )


def _number(judge: Judge, one: Judgement) -> float:
    assert one.truth is not None, "every row has a label here"
    truth = judge.truth(one.truth, one.key)
    assert isinstance(truth, float)
    return truth


def _marks(judge: Judge, one: Judgement) -> Marks:
    assert one.truth is not None, "every row has a label here"
    truth = judge.truth(one.truth, one.key)
    assert isinstance(truth, tuple)
    return match(one.boxes or (), truth)


def _worth(marks: Marks) -> float:
    """F1 of one row."""
    boxes = 2 * marks.right + marks.wrong + marks.missed
    return 2 * marks.right / boxes if boxes else 1.0


def _errors(truths: Array, rows: Sequence[Judgement]) -> Array:
    """No legal answer is as far off as the truths are from each other."""
    spread = float(np.ptp(truths))
    return np.array(
        [
            spread if one.number is None else abs(one.number - truth)
            for one, truth in zip(rows, truths, strict=True)
        ]
    )


def _spreads(sources: Sequence[Judgement]) -> Array | None:
    """P95 − P5 of each number of the source's answers; None where answers hold no equal count of numbers."""
    numbers = [_values(one) for one in sources]
    lengths = {len(one) for one in numbers if one}
    if len(lengths) != 1:
        return None
    low, high = np.percentile([one for one in numbers if one], (5, 95), axis=0)
    return np.asarray(high - low, dtype=np.float64)


def _values(one: Judgement) -> tuple[float, ...]:
    return one.values if one.number is None else (one.number,)


def _changed(source: Judgement, engine: Judgement, spreads: Array | None) -> bool:
    if source.legal != engine.legal:
        return True
    if source.boxes is not None and engine.boxes is not None:
        found = match(engine.boxes, source.boxes)
        return found.wrong + found.missed > 0
    if source.label is not None or engine.label is not None:
        return source.label != engine.label
    left, right = np.asarray(_values(source)), np.asarray(_values(engine))
    if left.shape != right.shape:
        return True
    if not left.size:
        return False
    scale = spreads if spreads is not None else np.full(left.shape, float(np.abs(left).max()))
    return bool((np.abs(left - right) > VALUE_TOLERANCE * scale + 1e-9).any())
