"""Rows given to a statement as parallel arrays, so that a batch of any size is one shape of statement."""

from collections.abc import Iterable
from typing import Any

from sqlalchemy import TableValuedAlias, cast, column, func
from sqlalchemy.dialects.postgresql import ARRAY
from sqlalchemy.types import TypeEngine


def rows(name: str, **columns: tuple[TypeEngine[Any], Iterable[object]]) -> TableValuedAlias:
    """A table expression `name` with one row per place of the columns, each a type and its values."""
    arrays = [cast(list(values), ARRAY(kind)) for kind, values in columns.values()]
    shape = [column(each, kind) for each, (kind, _) in columns.items()]
    return func.unnest(*arrays).table_valued(*shape).render_derived(name=name)
