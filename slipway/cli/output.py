"""What commands print: a table for people, JSON for programs. Progress only where someone looks."""

import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from enum import StrEnum
from typing import Annotated, TypeVar

import orjson
import typer
from pydantic import BaseModel
from rich.progress import BarColumn, DownloadColumn, Progress, TaskID, TextColumn, TransferSpeedColumn
from rich.table import Table

from slipway.cli.endings import PipedConsole

T = TypeVar("T", bound=BaseModel)


class Form(StrEnum):
    TABLE = "table"
    JSON = "json"
    JSONL = "jsonl"


Output = Annotated[Form, typer.Option("-o", "--output", help="Form of what is printed.")]
Column = tuple[str, Callable[[T], object]]

error_console = PipedConsole(stderr=True, highlight=False, soft_wrap=True)


def hint(text: str) -> None:
    """For people, on stderr."""
    error_console.print(text, markup=False)


def _plain(value: object) -> str:
    if value is None:
        return "-"
    if isinstance(value, bool):
        return "yes" if value else "no"
    return str(value)


def _json(value: BaseModel) -> bytes:
    return orjson.dumps(value.model_dump(mode="json"))


def rows(items: Iterable[T], columns: Sequence[Column[T]], output: Form) -> None:
    """A list: a table, one JSON array, or one JSON object a line."""
    found = list(items)
    if output is Form.JSON:
        print(orjson.dumps([item.model_dump(mode="json") for item in found]).decode())
    elif output is Form.JSONL:
        for item in found:
            print(_json(item).decode())
    else:
        table = Table(box=None, pad_edge=False, header_style="bold" if sys.stdout.isatty() else "")
        for name, _ in columns:
            table.add_column(name, overflow="fold")
        for item in found:
            table.add_row(*(_plain(value(item)) for _, value in columns))
        width = None if sys.stdout.isatty() else 200
        PipedConsole(highlight=False, markup=False, width=width).print(table)
        if not found:
            hint("(none)")


def one(item: T, columns: Sequence[Column[T]], output: Form) -> None:
    """One resource: name and value a line, or JSON."""
    if output is not Form.TABLE:
        print(_json(item).decode())
        return
    width = max(len(name) for name, _ in columns)
    for name, value in columns:
        print(f"{name:<{width}}  {_plain(value(item))}")


class Gone(BaseModel):
    """What a delete leaves to tell."""

    kind: str
    name: str
    gone: bool = True


def gone(kind: str, name: str, output: Form) -> None:
    """After a delete: for people on stderr, for programs as JSON."""
    if output is Form.TABLE:
        hint(f"{kind} {name} is gone")
    else:
        print(_json(Gone(kind=kind, name=name)).decode())


class Bars:
    """Byte progress of several files at once: bars on a terminal, one line a file elsewhere.

    The first call of a name says how much of it needs no moving: it was there already.
    """

    def __init__(self, progress: Progress | None, verb: str) -> None:
        self._progress = progress
        self._verb = verb
        self._tasks: dict[str, TaskID] = {}
        self._told: set[str] = set()
        self._there: dict[str, int] = {}

    def __call__(self, name: str, done: int, total: int) -> None:
        there = self._there.setdefault(name, done)
        if self._progress is not None:
            if name not in self._tasks:
                self._tasks[name] = self._progress.add_task(name, total=total)
            self._progress.update(self._tasks[name], completed=done)
        elif done >= total and name not in self._told:
            self._told.add(name)
            moved = f"{total - there} of {total} bytes, the rest was there" if there else f"{total} bytes"
            hint(f"{self._verb} {name} ({moved})")


@contextmanager
def bars(verb: str = "sent") -> Iterator[Bars]:
    """Progress of uploads or downloads, on stderr."""
    if not sys.stderr.isatty():
        yield Bars(None, verb)
        return
    columns = (TextColumn("{task.description}"), BarColumn(), DownloadColumn(), TransferSpeedColumn())
    with Progress(*columns, console=error_console, transient=True) as progress:
        yield Bars(progress, verb)


class Told:
    """Says a sentence when it differs from the last one: progress of waits, readable in a log too."""

    def __init__(self) -> None:
        self._last = ""

    def __call__(self, sentence: str) -> None:
        if sentence != self._last:
            self._last = sentence
            hint(sentence)
