"""What post-processing makes of one row: a mapping of field to value, ready for JSON."""

from typing import TypeAlias

from serving.pipeline.errors import IllegalAnswer

AnswerValue: TypeAlias = "str | int | float | bool | list[AnswerValue] | dict[str, AnswerValue]"
Answer: TypeAlias = dict[str, AnswerValue]
RowAnswer: TypeAlias = Answer | IllegalAnswer
