"""Loads a file for a target and warms it up: the one way builder, bench and node open an engine."""

import time
from dataclasses import replace
from pathlib import Path

from serving.runtimes.catalogue import runtime_for
from serving.runtimes.protocol import LoadedEngine, LoadOptions, LoadTimes, Progress, Tensors, ignore_progress
from serving.runtimes.warm import WarmUp, warm


def open_engine(
    path: Path,
    target: str,
    options: LoadOptions = LoadOptions(),
    *,
    warm_rows: int = 0,
    example: Tensors | None = None,
    progress: Progress | None = None,
) -> tuple[LoadedEngine, LoadTimes, WarmUp]:
    """The times include the warm-up. `warm_rows` 0 means none.

    Raises UnknownTarget, NotAModel, ProviderUnavailable, FileNotFoundError, and of a warm-up with an
    example what `infer` raises.
    """
    tell = progress or ignore_progress
    runtime, device = runtime_for(target)
    engine = runtime.load(path, device, options, tell)
    if not warm_rows:
        return engine, engine.load_times, WarmUp(())
    tell("warm_up")
    started = time.perf_counter()
    try:
        warmed = warm(engine, warm_rows, example)
    except BaseException:
        engine.close()
        raise
    return engine, replace(engine.load_times, warm_up_s=time.perf_counter() - started), warmed
