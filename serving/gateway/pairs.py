"""One pair: the same request answered by canary and by stable. Counted by rows, under the canary's key.

`pairs.n` rows were given to both, `compared` were answered by both. `canary_failed` and `stable_failed`, and
`…_low`, mean *only* that arm; a flip is a row whose class differs in any observable, and `in`/`out` name the
classes of both sides there.
"""

from collections.abc import Sequence

from serving.telemetry.counterfile import CounterFile
from serving.telemetry.observables import Sight


def count_pair(
    file: CounterFile, canary: Sequence[Sight] | None, stable: Sequence[Sight] | None, rows: int
) -> None:
    """`canary` and `stable`: what was seen in each one's answers; None stands for an arm that failed."""
    file.add("pairs.n", 0, rows)
    if canary is None and stable is not None:
        file.add("pairs.canary_failed", 0, rows)
    elif stable is None and canary is not None:
        file.add("pairs.stable_failed", 0, rows)
    elif canary is not None and stable is not None:
        file.add("pairs.compared", 0, rows)
        for ours, theirs in zip(canary, stable, strict=False):
            _compare(file, ours, theirs)


def _compare(file: CounterFile, canary: Sight, stable: Sight) -> None:
    """Observables that only one of the two versions declares can't be compared."""
    others = {seen.edges.name: seen for seen in stable}
    flipped = False
    for ours in canary:
        name = ours.edges.name
        theirs = others.get(name)
        if theirs is None:
            continue
        if ours.is_class:
            if ours.value != theirs.value:
                flipped = True
                file.add(f"pairs.{name}.in", ours.bin)
                file.add(f"pairs.{name}.out", theirs.bin)
        elif ours.low and not theirs.low:
            file.add(f"pairs.{name}.canary_low")
        elif theirs.low and not ours.low:
            file.add(f"pairs.{name}.stable_low")
    if flipped:
        file.add("pairs.flips")
