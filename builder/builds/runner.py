"""Runs one step for a build: from the cache, or isolated; reports it; keeps what came out by its digest."""

import os
import shlex
import stat
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Generic, TypeVar

from pydantic import ValidationError

from builder.builds import facts
from builder.builds.inputs import Input
from builder.held import Held, LeaseLost
from builder.isolation import disk, isolate, launch
from builder.isolation.isolate import Ending, Limits
from builder.isolation.launch import HERE, Place
from builder.logstream import LogStream
from builder.steps.step import OUTCOME_FILE, P, R, Refused, Step, StepEnding, StepOutcome
from builder.store import Store
from registry.client import builds, uploads
from registry.contract.builds import Build, CachedStep, StepPhase, StepReport, StepWrite
from registry.contract.identity import Digest
from registry.contract.wire import Wire, sha256_of

Result = TypeVar("Result")
Told = TypeVar("Told", bound=Wire)

LARGEST_OUTCOME_BYTES = 64 << 20
# What a step may know of this process: nothing of the registry, no token.
PASSED_ON = ("PATH", "LANG", "LC_ALL", "TZ", "LD_LIBRARY_PATH", "VIRTUAL_ENV")


class StepFailed(Exception):
    """A step crashed, met a limit or raised. The text is for people."""


@dataclass(frozen=True, slots=True)
class Finished(Generic[Result]):
    result: Result
    outputs: dict[str, Digest]


def step_key(
    step: Step[P, R],
    parameters: Wire,
    inputs: Mapping[str, Input],
    extra: Mapping[str, str],
    place: Place = HERE,
) -> Digest:
    """Equal keys mean equal results: inputs, operation, parameters, tools and machine are all in it."""
    return sha256_of(
        {
            "operation": step.name,
            "revision": step.revision,
            "parameters": parameters.model_dump(mode="json"),
            "inputs": {name: found.digest for name, found in inputs.items()},
            "tools": facts.tools(place.environment),
            "machine": {**facts.machine(), **extra},
        }
    )


def reproduce_line(
    step: Step[P, R], parameters: Wire, inputs: Mapping[str, Input], place: Place = HERE
) -> str:
    """A command that runs the step again on any machine with a token."""
    words = ["python", "-m", "builder.steps", step.name, *place.words]
    for name, found in inputs.items():
        words += ["--input", f"{name}={found.where}"]
    words += ["--parameters", parameters.model_dump_json(exclude_defaults=True), "--out", step.name]
    return shlex.join(words)


class Runner:
    """The steps of one build, one after the other."""

    def __init__(self, held: Held, store: Store, build: Build, log: LogStream, room: Path) -> None:
        self._held = held
        self._store = store
        self._build = build
        self._log = log
        self._room = room
        self._began = time.monotonic()
        self._count = 0
        # Without the cache an earlier attempt of this very build still counts.
        self._own = {step.key for step in build.steps if step.phase in (StepPhase.DONE, StepPhase.CACHED)}

    def run(
        self,
        step: Step[P, R],
        parameters: P,
        inputs: Mapping[str, Input],
        engine: str | None = None,
        extra: Mapping[str, str] | None = None,
        place: Place = HERE,
    ) -> Finished[R]:
        """Raises Refused (the model, data or recipe doesn't allow it), StepFailed, LeaseLost, and what
        moving bytes raises."""
        report = StepReport(
            name=step.name,
            engine=engine,
            phase=StepPhase.RUNNING,
            key=step_key(step, parameters, inputs, extra or {}, place),
            inputs={name: found.digest for name, found in inputs.items()},
            started_s=time.monotonic() - self._began,
            reproduce=reproduce_line(step, parameters, inputs, place),
        )
        self._log.write(f"── {step.name}{f' ({engine})' if engine else ''}\n")
        found = self._cached(step, report)
        if found is not None:
            return found
        self._report(report)
        try:
            return self._run_here(step, parameters, inputs, report, place)
        except Refused as refused:
            self._report(self._ended(report, StepPhase.REFUSED, str(refused)))
            raise
        except StepFailed as failed:
            self._report(self._ended(report, StepPhase.FAILED, str(failed)))
            raise
        except OSError as error:
            if not disk.is_full(self._room, error):
                raise
            self._report(self._ended(report, StepPhase.FAILED, disk.sentence()))
            raise StepFailed(disk.sentence()) from error

    def size_of(self, digest: Digest) -> int:
        """Bytes of an output. The registry knows it: a worker that finds all steps cached needs no blob."""
        return self._held.send(uploads.blob(digest)).size

    def skip(self, name: str, engine: str | None, reason: str) -> None:
        self._report(StepReport(name=name, engine=engine, phase=StepPhase.SKIPPED, reason=reason))

    def _cached(self, step: Step[P, R], report: StepReport) -> Finished[R] | None:
        assert report.key is not None
        if self._build.no_cache and report.key not in self._own:
            return None
        cached = self._held.send(builds.cached_step(report.key))
        if cached is None:
            return None
        try:
            result = step.result.model_validate(cached.report)
        except ValidationError:
            return None  # written by another release of this program: run it again
        ended = self._ended(report, StepPhase.CACHED, result.says, cached.outputs)
        self._log.write(f"{result.says} (ran before)\n")
        self._report(ended)
        return Finished(result, dict(cached.outputs))

    def _run_here(
        self,
        step: Step[P, R],
        parameters: P,
        inputs: Mapping[str, Input],
        report: StepReport,
        place: Place,
    ) -> Finished[R]:
        self._count += 1
        room = self._room / f"{self._count:02d}-{step.name}"
        out = room / "out"
        out.mkdir(parents=True)
        placed = {name: self._placed(found, room / "in" / name) for name, found in inputs.items()}
        (room / "parameters.json").write_text(parameters.model_dump_json())
        (out / "reproduce").write_text(report.reproduce + "\n")
        outcome = self._isolated(step, placed, room, out, place)
        peak, ending = outcome.peak_memory_bytes, self._ending(outcome, out)
        if ending.ending is StepEnding.FAILED:
            raise StepFailed(ending.reason)
        if ending.ending is StepEnding.REFUSED:
            raise Refused(ending.reason)
        result = _read(step.result, ending.result)
        outputs = {}
        for name in step.outputs:
            outputs[name] = self._kept(_plain(out / name))
        assert report.key is not None
        self._held.send(
            builds.write_cached_step(
                CachedStep(key=report.key, outputs=outputs, report=result.model_dump(mode="json"))
            )
        )
        self._report(
            self._ended(report, StepPhase.DONE, result.says, outputs).model_copy(
                update={"peak_memory_bytes": peak}
            )
        )
        return Finished(result, outputs)

    def _placed(self, found: Input, folder: Path) -> Path:
        return self._held.patiently("fetching", lambda: found.place(self._store, folder))

    def _kept(self, path: Path) -> Digest:
        digest = self._store.keep(path)
        self._held.patiently("uploading", lambda: self._store.upload(digest))
        return digest

    def _isolated(
        self, step: Step[P, R], placed: Mapping[str, Path], room: Path, out: Path, place: Place
    ) -> isolate.Outcome:
        command = launch.command(place, step.name, placed, room / "parameters.json", out, os.getpid())
        limits = self._build.recipe.limits
        outcome = isolate.run(
            command,
            folder=room,
            log=room / "log",
            limits=Limits(limits.step_timeout_s, limits.step_memory_mib * isolate.MIB),
            environment=_environment(room),
            heard=self._log.write,
            stop=self._held.lost,
            walled=place.walled,
        )
        if outcome.ending is Ending.STOPPED:
            raise LeaseLost(self._held.why)
        return outcome

    def _ending(self, outcome: isolate.Outcome, out: Path) -> StepOutcome:
        """What the step says of itself; where it couldn't say anything, how it ended."""
        written = out / OUTCOME_FILE
        if outcome.ending in (Ending.OK, Ending.FAILED) and written.is_file():
            if _plain(written).stat().st_size > LARGEST_OUTCOME_BYTES:
                raise StepFailed(f"its outcome is larger than {LARGEST_OUTCOME_BYTES} bytes")
            return _read(StepOutcome, written.read_bytes())
        if outcome.ending is Ending.FAILED and disk.is_full(out):
            raise StepFailed(disk.sentence())
        return StepOutcome(ending=StepEnding.FAILED, reason=outcome.reason or "ended without an outcome")

    def _ended(
        self,
        report: StepReport,
        phase: StepPhase,
        reason: str,
        outputs: Mapping[str, Digest] | None = None,
    ) -> StepReport:
        duration = time.monotonic() - self._began - report.started_s
        return report.model_copy(
            update={
                "phase": phase,
                "reason": reason,
                "duration_s": duration,
                "outputs": dict(outputs or {}),
            }
        )

    def _report(self, report: StepReport) -> None:
        self._held.send(builds.write_step(self._build.id, StepWrite(fence=self._held.fence, step=report)))


def _read(kind: type[Told], text: bytes | str) -> Told:
    """Raises StepFailed: a step that ran foreign code may have written anything."""
    try:
        return kind.model_validate_json(text)
    except ValidationError as error:
        raise StepFailed(f"left an outcome that can't be read: {error.errors()[0]['msg']}") from error


def _plain(path: Path) -> Path:
    """Raises StepFailed for anything but a file of its own: a step that ran foreign code may leave a link to
    something outside of its room, or nothing."""
    try:
        state = path.lstat()
    except FileNotFoundError as error:
        raise StepFailed(f"ended without its output {path.name}") from error
    if not stat.S_ISREG(state.st_mode) or state.st_nlink != 1:
        raise StepFailed(f"left {path.name} as something else than a file of its own")
    return path


def _environment(room: Path) -> dict[str, str]:
    passed = {name: os.environ[name] for name in PASSED_ON if name in os.environ}
    return {**passed, "HOME": str(room), "TMPDIR": str(room), "PYTHONDONTWRITEBYTECODE": "1"}
