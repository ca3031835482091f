"""Named columns → one row of numbers."""

import difflib
import math
from typing import Any

import numpy as np

from registry.contract.pipeline import Column, Table
from registry.contract.versions import Dtype, Signature
from serving.pipeline.errors import PipelineMismatch
from serving.pipeline.prepared import Cost, Prepared
from serving.pipeline.raw_json import json_cost, parsed
from serving.pipeline.specs import input_spec
from serving.runtimes.dtypes import FLOATS, numpy_dtype
from serving.runtimes.errors import InputError

NAMED = 5


class TableStep:
    """[1, columns], of the signature's type."""

    def __init__(self, spec: Table, signature: Signature) -> None:
        """Raises PipelineMismatch."""
        tensor = input_spec(signature, spec.output, "table")
        fits = len(tensor.shape) == 2 and tensor.dtype not in (Dtype.BYTES, Dtype.BOOL)
        if not fits or (isinstance(tensor.shape[1], int) and tensor.shape[1] != spec.width):
            raise PipelineMismatch(
                f"table makes numbers [rows, {spec.width}], but {spec.output!r} is "
                f"{tensor.dtype.value}{list(tensor.shape)}"
            )
        self._spec = spec
        self._dtype = numpy_dtype(tensor.dtype)
        self._whole = tensor.dtype not in FLOATS
        self._columns = {column.name: column for column in spec.columns}
        self._codes = {
            column.name: {category: at for at, category in enumerate(column.categories)}
            for column in spec.columns
            if column.categories
        }

    def cost(self, size: int) -> Cost:
        return json_cost(size)

    def prepare(self, raw: bytes) -> Prepared:
        """Raises InputError, which names the column."""
        found = parsed(raw, self._example())
        if not isinstance(found, dict):
            raise InputError(
                "raw input",
                wanted="a JSON object of column → value",
                got=type(found).__name__,
                mend=f"send {self._example()}",
            )
        for name in found:
            if name not in self._columns:
                raise self._unknown_column(name)
        numbers: list[float] = []
        for column in self._spec.columns:
            numbers += self._numbers(column, found.get(column.name))
        return Prepared({self._spec.output: self._row(numbers)})

    def _row(self, numbers: list[float]) -> "np.ndarray[Any, np.dtype[Any]]":
        row = np.asarray([numbers], dtype=np.float64)
        if self._whole:
            limits = np.iinfo(self._dtype)
            if (row != np.floor(row)).any() or row.min() < limits.min or row.max() > limits.max:
                raise InputError(
                    "values of the table",
                    wanted=f"whole numbers of {self._dtype}",
                    got="another number",
                    mend="send whole numbers, as in training",
                )
            return row.astype(self._dtype)
        with np.errstate(over="ignore"):
            made = row.astype(self._dtype)
        if np.isinf(made).any():
            raise InputError(
                "values of the table",
                wanted=f"numbers that {self._dtype} holds",
                got="one beyond it",
                mend="scale the values as in training",
            )
        return made

    def _numbers(self, column: Column, value: object) -> list[float]:
        if value is None:
            return self._missing(column)
        if column.categories:
            return self._category(column, value)
        if isinstance(value, int | float) and (isinstance(value, int) or math.isfinite(value)):
            return [float(value)]
        raise _wrong(column, "a number", value, "convert the value; null stands for a missing one")

    def _missing(self, column: Column) -> list[float]:
        if column.missing is None:
            raise InputError(
                f"column {column.name!r}",
                wanted="a value",
                got="nothing",
                mend="send it: the model was trained with it always there",
            )
        value = math.nan if column.missing == "nan" else column.missing
        return [value] * column.width

    def _category(self, column: Column, value: object) -> list[float]:
        code = self._codes[column.name].get(value) if isinstance(value, str) else None
        if code is None and column.unknown is None:
            listed = ", ".join(column.categories[:NAMED])
            more = ", …" if len(column.categories) > NAMED else ""
            raise _wrong(column, f"one of {listed}{more}", value, "send a category of the training data")
        if column.one_hot:
            return [float(at == code) for at in range(len(column.categories))]
        if code is None:
            assert column.unknown is not None, "refused above"
            return [float(column.unknown)]
        return [float(code)]

    def _unknown_column(self, name: str) -> InputError:
        near = difflib.get_close_matches(name, self._columns, 1)
        names = ", ".join(list(self._columns)[:NAMED])
        return InputError(
            f"column {name!r}",
            wanted=f"columns of the table ({names}{', …' if len(self._columns) > NAMED else ''})",
            got=f"{name!r}, which is none of them",
            mend=f"did you mean {near[0]!r}?" if near else "leave it out",
        )

    def _example(self) -> str:
        names = list(self._columns)[:2]
        more = ", …" if len(self._columns) > 2 else ""
        return "{" + ", ".join(f'"{name}": …' for name in names) + more + "}"


def _wrong(column: Column, wanted: str, value: object, mend: str) -> InputError:
    return InputError(f"column {column.name!r}", wanted=wanted, got=repr(value)[:100], mend=mend)
