"""What validation judges an answer by: the contract's own metric, and what one row says of it. Pure.

Labels of a data set are texts; those that are lists or objects in the index are their JSON (see `rows`).
"""

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TypeAlias, assert_never

import orjson

from builder.judgement.matching import Box
from builder.steps.step import Refused
from registry.contract.pipeline import (
    Argmax,
    Classify,
    Ctc,
    Detect,
    PostStep,
    Regress,
    Tags,
    Tensors,
    TokenText,
)
from registry.contract.versions import MetricName, VersionContract
from serving.pipeline.answers import Answer, AnswerValue

Said: TypeAlias = str | float | tuple[Box, ...]
"""What an answer says in the terms of its metric: a label or text, a number, or boxes. Tags are boxes that
all lie in one place."""

BOXES = '[{"label": …, "box": [x1, y1, x2, y2]}, …]'


@dataclass(frozen=True, slots=True)
class Judge:
    """`step` makes the field that `metric` judges."""

    metric: MetricName
    step: PostStep

    def said(self, answer: Answer) -> Said:
        """In the answer. Raises KeyError where it isn't the step's."""
        match self.step:
            case Classify() | Argmax():
                return str(answer["label"])
            case Ctc() | TokenText():
                return str(answer["text"])
            case Regress(field=field):
                return _number(answer[field])
            case Tags():
                return tuple(Box(label=str(tag["label"])) for tag in _objects(answer["tags"]))
            case Detect():
                return tuple(_box(one) for one in _objects(answer["detections"]))
            case Tensors():
                raise AssertionError("judge_of gives no judge of plain tensors")
            case _:
                assert_never(self.step)

    def truth(self, label: str, key: str) -> Said:
        """Of a data set's label. Raises Refused, naming the row, when it can't be read as one."""
        try:
            match self.step:
                case Classify() | Argmax() | Ctc() | TokenText():
                    return label
                case Regress():
                    return _finite(float(label))
                case Tags():
                    return tuple(Box(label=tag) for tag in _texts(orjson.loads(label)))
                case Detect():
                    return tuple(_box(one) for one in _objects(orjson.loads(label)))
                case Tensors():
                    raise AssertionError("judge_of gives no judge of plain tensors")
                case _:
                    assert_never(self.step)
        except (ValueError, KeyError, TypeError) as error:
            raise Refused(
                f"the label of row {key!r} is not what {self.metric} is measured by ({error}); "
                f"{_wanted(self.step)}"
            ) from error


def judge_of(contract: VersionContract) -> Judge | None:
    """By the metric that the contract names, or the first post-processing step's own.

    None: the answers are plain tensors, which only the source can be compared with. Raises Refused for a
    metric that no step has.
    """
    offered = [(name, step) for step in contract.pipeline.post for name in metrics_of(step)]
    if contract.metric is None:
        return Judge(*offered[0]) if offered else None
    found = next((Judge(name, step) for name, step in offered if name == contract.metric), None)
    if found is None:
        ours = ", ".join(dict.fromkeys(name for name, _ in offered)) or "none"
        raise Refused(
            f"the contract is judged by {contract.metric}, and its post-processing has: {ours}; register a "
            "version with a metric that fits its answers"
        )
    return found


def metrics_of(step: PostStep) -> tuple[MetricName, ...]:
    """Those that its answers can be judged by, its own first."""
    match step:
        case Classify() | Argmax():
            return ("accuracy",)
        case Ctc() | TokenText():
            return ("exact_match",)
        case Regress():
            return ("mae", "rmse")
        case Tags():
            return ("f1",)
        case Detect():
            return ("f1", "ap50")
        case Tensors():
            return ()
        case _:
            assert_never(step)


def _objects(value: AnswerValue) -> Iterator[dict[str, AnswerValue]]:
    if not isinstance(value, list):
        raise TypeError("it is no list")
    for one in value:
        if not isinstance(one, dict):
            raise TypeError("it holds something else than objects")
        yield one


def _texts(value: AnswerValue) -> Iterator[str]:
    if not isinstance(value, list) or not all(isinstance(one, str) for one in value):
        raise TypeError("it is no list of texts")
    yield from (str(one) for one in value)


def _box(found: dict[str, AnswerValue]) -> Box:
    edges = found["box"]
    if not isinstance(edges, list) or len(edges) != 4:
        raise ValueError("a box has four numbers")
    x1, y1, x2, y2 = (_finite(_number(edge)) for edge in edges)
    return Box(
        label=str(found.get("label", "")), score=_number(found.get("score", 1.0)), edges=(x1, y1, x2, y2)
    )


def _number(value: AnswerValue) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise TypeError(f"{value!r} is no number")
    return float(value)


def _finite(value: float) -> float:
    if not math.isfinite(value):
        raise ValueError("it is not finite")
    return value


def _wanted(step: PostStep) -> str:
    match step:
        case Regress():
            return "write a number as the row's label"
        case Tags():
            return 'write the list of its tags, ["…", …], as the row\'s label'
        case Detect():
            return f"write {BOXES} as the row's label, in pixels of the image"
        case _:
            return "write a text as the row's label"
