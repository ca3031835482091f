"""Counter fields in their two forms: sparse JSON as stored, dense arrays to count with. Pure."""

import logging
from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

Cells = npt.NDArray[np.int64]
Fields = dict[str, Cells]
Stored = Mapping[str, Any]

log = logging.getLogger(__name__)


def dense(stored: Stored, sizes: Mapping[str, int]) -> Fields:
    """Name → array of the field's size. What `sizes` does not know is left out."""
    return {
        name: _array(cells, sizes[name]) for name, cells in stored.items() if name in sizes and cells["at"]
    }


def _array(cells: Stored, size: int) -> Cells:
    at, n = np.asarray(cells["at"], dtype=np.int64), np.asarray(cells["n"], dtype=np.int64)
    inside = at < size
    array = np.zeros(size, dtype=np.int64)
    array[at[inside]] = n[inside]
    return array


def sparse(fields: Mapping[str, Cells]) -> dict[str, dict[str, list[int]]]:
    """The form of `SparseCells`, without what is zero."""
    return {
        name: {"at": np.flatnonzero(cells).tolist(), "n": cells[cells != 0].tolist()}
        for name, cells in fields.items()
        if cells.any()
    }


def difference(now: Fields, before: Fields) -> Fields:
    """What was counted since. Cumulative cells never shrink; one that does is taken as not counted."""
    found: Fields = {}
    for name, cells in now.items():
        delta = cells - before[name] if name in before else cells
        if bool((delta < 0).any()):
            log.warning("counter %s shrank within one incarnation; its lower cells are ignored", name)
            delta = np.maximum(delta, 0)
        if delta.any():
            found[name] = delta
    return found


def add(into: Fields, more: Mapping[str, Cells]) -> None:
    """Adds cell by cell. Arrays of another size were counted on other edges and are left out."""
    for name, cells in more.items():
        known = into.get(name)
        if known is None:
            into[name] = cells.copy()
        elif known.shape == cells.shape:
            into[name] = known + cells
