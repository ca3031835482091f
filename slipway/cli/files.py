"""Files that commands are given: JSON of a contract, a recipe, a policy."""

from pathlib import Path
from typing import TypeVar

from registry.contract.asked import Misread, read

T = TypeVar("T")


def document(kind: type[T], path: Path) -> T:
    """What a file holds. Raises ValueError, which names the file and the place in it; OSError."""
    try:
        return read(kind, path.read_bytes())
    except Misread as error:
        raise ValueError(f"{path}: {error}") from error
