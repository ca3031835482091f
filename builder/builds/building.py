"""Does the work of a leased build: reads what to build, runs the sequence, and reports how it ended."""

import logging

from builder.builds.runner import Runner, StepFailed
from builder.builds.sequence import Sequence
from builder.builds.targets import Family, family_of
from builder.builds.work import Work, check_recipe, engine_name
from builder.held import Held
from builder.logstream import LogStream
from builder.steps.step import Refused
from builder.store import Store
from registry.client import ApiError, builds, datasets, versions
from registry.contract.builds import Build, EngineWrite, TaskFinish
from registry.contract.datasets import Dataset
from registry.contract.identity import parse_version
from registry.contract.versions import DatasetRef

logger = logging.getLogger(__name__)


def run_build(held: Held, store: Store, build_id: str, threads: int, allow_code: bool = False) -> None:
    """Ends with the build finished, or with LeaseLost. Raises what moving bytes raises: the registry or the
    object store is away, and another attempt will find the finished steps."""
    build = held.send(builds.get(build_id))
    with LogStream(held) as log, store.room(held.lease.task) as room:
        log.write(f"attempt {held.lease.attempt} of build {build.id}: {build.version}\n")
        try:
            reason = _engines(held, build, Runner(held, store, build, log, room), threads, allow_code)
        except (Refused, StepFailed) as error:
            reason = str(error)
        except ApiError as error:
            if error.status >= 500:
                raise
            reason = f"the registry refused: {error}"
        except Exception as error:
            log.write(f"this attempt ended without a result: {type(error).__name__}: {error}\n")
            raise
        log.write(f"{'failed: ' + reason if reason else 'completed'}\n")
    held.send(builds.finish(build.id, TaskFinish(fence=held.fence, failed=bool(reason), reason=reason)))


def _engines(held: Held, build: Build, runner: Runner, threads: int, allow_code: bool) -> str:
    """Why the build failed; empty when at least one engine was made and reported."""
    work = _work(held, build, threads, allow_code)
    check_recipe(work)
    sequence = Sequence(runner, work)
    by_onnx = any(family_of(target) is not Family.TORCH for target in work.recipe.targets)
    source = sequence.source() if by_onnx else None
    impossible: list[str] = []
    for precision in work.recipe.precisions:
        for target in work.recipe.targets:
            try:
                report = sequence.engine(source, precision, target)
            except Refused as refused:
                impossible.append(f"{engine_name(precision, target)}: {refused}")
                continue
            held.send(builds.write_engine(build.id, EngineWrite(fence=held.fence, engine=report)))
    engines = len(work.recipe.precisions) * len(work.recipe.targets)
    return "; ".join(impossible) if len(impossible) == engines else ""


def _work(held: Held, build: Build, threads: int, allow_code: bool) -> Work:
    named = parse_version(build.version)
    return Work(
        version=held.send(versions.get(named.model, named.number)),
        recipe=build.recipe,
        calibration=_dataset(held, build.recipe.calibration),
        validation=_dataset(held, build.recipe.validation),
        threads=threads,
        allow_code=allow_code,
    )


def _dataset(held: Held, ref: DatasetRef | None) -> Dataset | None:
    return None if ref is None else held.send(datasets.get(ref.name, ref.version))
