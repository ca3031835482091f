"""How a command line ends, whatever happened: exit codes, and what typer would end in other words."""

import errno
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from rich.console import Console
from typer import Context
from typer.core import TyperGroup

DONE, SERVER, USAGE, GATE, TIMED_OUT, CONFLICT, DENIED, DETACHED, READER_GONE = (
    *range(7),
    130,
    # 128 + SIGPIPE, as other programs in a pipe end.
    141,
)


class Detached(Exception):
    """Ctrl-C while a command ran."""


class ReaderGone(Exception):
    """Whoever read standard output has closed it: `slipway audit list | head -1`."""


class Commands(TyperGroup):
    """The top of the commands. Typer turns Ctrl-C and a closed pipe into bare exit codes; here they keep
    their names, so that one place says what each means."""

    def make_context(self, *args: Any, **more: Any) -> Context:
        with _named():
            return super().make_context(*args, **more)  # type: ignore[return-value]

    def invoke(self, ctx: Any) -> Any:
        with _named():
            return super().invoke(ctx)


class PipedConsole(Console):
    """Rich would end the process where a reader has gone."""

    def on_broken_pipe(self) -> None:
        self.quiet = True
        raise ReaderGone


@contextmanager
def _named() -> Iterator[None]:
    try:
        yield
    except KeyboardInterrupt as error:
        raise Detached from error
    except BrokenPipeError as error:
        raise ReaderGone from error
    except OSError as error:
        if error.errno == errno.EPIPE:
            raise ReaderGone from error
        raise


def opened() -> str | None:
    """To be asked before a command does anything: None, or why what it prints would be lost.

    Python has no `sys.stdout` where the descriptor is closed, and the next file that is opened would get its
    number. Hints alone may be lost: a closed stderr is that of someone who wants none.
    """
    if sys.stderr is None:
        sys.stderr = open(os.devnull, "w")  # noqa: SIM115, PTH123 - for the life of the process
    if sys.stdout is None:
        return "standard output is closed: nothing could be printed. To print nowhere, send it to /dev/null"
    return None


def flushed() -> str | None:
    """To be asked when a command is over: None, or why standard output did not take all of it.

    Raises ReaderGone. What can't be written is dropped: Python would try again at its end, and fail there.
    """
    try:
        sys.stdout.flush()
        return None
    except BrokenPipeError as error:
        _drop_output()
        raise ReaderGone from error
    except OSError as error:
        _drop_output()
        return f"standard output could not be written: {error.strerror or error}"


def _drop_output() -> None:
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, sys.stdout.fileno())
    os.close(nowhere)
