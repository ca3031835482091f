"""What can be wrong before and behind an engine.

A caller's own fault is `serving.runtimes.errors.InputError`.
"""


class PipelineMismatch(Exception):
    """A pipeline, its observables and a signature don't fit together: the version has to be mended."""


class IllegalAnswer(Exception):
    """The engine answered, and the answer can't be right. `reason` is a full sentence part; `row` counts
    from 0, None when the whole batch is wrong."""

    def __init__(self, reason: str, row: int | None = None) -> None:
        self.reason = reason
        self.row = row
        super().__init__(reason if row is None else f"row {row}: {reason}")
