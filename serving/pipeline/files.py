"""The version's files that a pipeline reads: tokenizers, vocabularies, character sets."""

from collections.abc import Mapping
from pathlib import Path

from serving.pipeline.errors import PipelineMismatch

Files = Mapping[str, Path]
"""Path in the version's manifest → where its bytes lie on this machine."""

NO_FILES: Files = {}


def read_file(files: Files, path: str, step: str) -> bytes:
    """Raises PipelineMismatch when the file is not here."""
    where = files.get(path)
    if where is None:
        known = ", ".join(files) or "none"
        raise PipelineMismatch(
            f"{step} reads {path!r}, which is no file of the version here (it has {known})"
        )
    try:
        return where.read_bytes()
    except OSError as error:
        raise PipelineMismatch(f"{step} can't read {path!r}: {error.strerror}") from error


def read_lines(files: Files, path: str, step: str) -> tuple[str, ...]:
    """UTF-8 text, one entry a line; a line may hold a single space. Raises PipelineMismatch."""
    try:
        text = read_file(files, path, step).decode()
    except UnicodeDecodeError as error:
        raise PipelineMismatch(f"{step}: {path!r} is not UTF-8 text ({error.reason})") from error
    lines = [line.removesuffix("\r") for line in text.split("\n")]
    return tuple(lines[:-1] if lines[-1] == "" else lines)
