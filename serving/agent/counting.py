"""Reads the gateway workers' counter files and turns them into what a report carries."""

import logging
import shutil
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from registry.contract.counters import CounterReport, SparseCells
from serving.telemetry.counterfile import CounterSnapshot, find, read

RETIRE_AFTER_S = 300.0

log = logging.getLogger("agent")


@dataclass(slots=True)
class _Known:
    """`told`: what the registry has accepted last. `quiet_since`: no cell changed since, monotonic s."""

    quiet_since: float
    told: Mapping[str, SparseCells] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Gathered:
    """`finished`: files whose writer is gone, to be deleted once `reports` are accepted."""

    reports: tuple[CounterReport, ...]
    finished: tuple[Path, ...]
    told: Mapping[Path, Mapping[str, SparseCells]]


class Counting:
    """The files of this incarnation. Values are cumulative: a report that was lost takes nothing away."""

    def __init__(self, state: Path, incarnation: str) -> None:
        self._state = state
        self._incarnation = incarnation
        self._known: dict[Path, _Known] = {}

    def gather(self, seq: int, now: float, generations: Mapping[str, int], alive: frozenset[int]) -> Gathered:
        """`generations`: those in effect; theirs are told even without a change, so that a silence is
        not taken for a gap. `alive`: workers that still write; of others the last values are told, with
        the requests that died inside."""
        reports: list[CounterReport] = []
        finished: list[Path] = []
        told: dict[Path, Mapping[str, SparseCells]] = {}
        for path in find(self._state, self._incarnation):
            snapshot = read(path)
            if snapshot is None:
                continue
            gone = snapshot.key.worker not in alive
            fields = snapshot.settled().sparse() if gone else snapshot.sparse()
            known = self._known.setdefault(path, _Known(now))
            current = generations.get(snapshot.key.deployment) == snapshot.key.generation
            changed = fields != known.told
            if changed:
                known.quiet_since = now
            elif not current and now - known.quiet_since > RETIRE_AFTER_S:
                finished.append(path)
            if gone:
                finished.append(path)
            if changed or (fields and (current or gone)):
                reports.append(_report(snapshot, seq, fields, final=gone))
                told[path] = fields
        return Gathered(tuple(reports), tuple(finished), told)

    def accepted(self, gathered: Gathered) -> None:
        """The registry took them: remember what it knows, delete what is finished."""
        for path, fields in gathered.told.items():
            if path in self._known:
                self._known[path].told = fields
        for path in gathered.finished:
            path.unlink(missing_ok=True)
            self._known.pop(path, None)


def old_incarnations(state: Path, own: str) -> tuple[str, ...]:
    """Of earlier starts that left counter files, oldest first."""
    folder = state / "counters"
    found = (
        [path for path in folder.iterdir() if path.is_dir() and path.name != own] if folder.is_dir() else []
    )
    return tuple(path.name for path in sorted(found, key=lambda path: path.stat().st_mtime))


def last_words(state: Path, incarnation: str, seq: int) -> tuple[CounterReport, ...]:
    """The final counters of an incarnation that is gone: what was inside has died."""
    found = (read(path) for path in find(state, incarnation))
    settled = (snapshot.settled() for snapshot in found if snapshot is not None)
    reports = [_report(snapshot, seq, snapshot.sparse(), final=True) for snapshot in settled]
    return tuple(report for report in reports if report.fields)


def forget_incarnation(state: Path, incarnation: str) -> None:
    """Delete its files, after the registry took its last words."""
    shutil.rmtree(state / "counters" / incarnation, ignore_errors=True)


def _report(
    snapshot: CounterSnapshot, seq: int, fields: dict[str, SparseCells], final: bool
) -> CounterReport:
    key = snapshot.key
    return CounterReport(
        worker=key.worker,
        deployment=key.deployment,
        generation=key.generation,
        arm=key.arm,
        seq=seq,
        final=final,
        fields=fields,
    )
