"""The same recipe again: everything from the cache, and the same bytes on a worker that has none."""

import subprocess
from pathlib import Path

import pytest

from registry.contract.builds import Build, BuildPhase, StepPhase
from registry.contract.recipes import Precision, Recipe, Tolerances
from registry.contract.versions import DatasetRef, Version
from tests.builder import made
from tests.builder.rig import Rig

# What these steps write is a measurement, and another one each time.
MEASURED = ("bench",)


@pytest.fixture(scope="module")
def worker(rig: Rig) -> subprocess.Popen[bytes]:
    rig.work("verify")
    return rig.work("cpu", "-first", {"PYTHONHASHSEED": "1"})


@pytest.fixture(scope="module")
def version(rig: Rig, worker: subprocess.Popen[bytes]) -> Version:
    return rig.register({"model.onnx": made.conv_model(rig.home / "model.onnx")})


@pytest.fixture(scope="module")
def recipe(rig: Rig, version: Version) -> Recipe:
    """The optimised graph, static and dynamic INT8."""
    rows = [made.raw_image(row) for row in made.images(40)]
    rig.register_set(made.raw_set(rig.home / "cal", rows, [None] * 40, kind="calibration"), "cal")
    return Recipe(
        precisions=(Precision.FP32, Precision.INT8_STATIC, Precision.INT8_DYNAMIC),
        calibration=DatasetRef(name="cal", version=1),
        tolerances=Tolerances(min_speed_ratio=0.01),
    )


@pytest.fixture(scope="module")
def built(rig: Rig, version: Version, recipe: Recipe) -> Build:
    build = rig.ended(rig.build(version, recipe))
    assert build.phase is BuildPhase.COMPLETED, build.reason
    return build


def outputs(build: Build) -> dict[str, dict[str, str]]:
    """Step and engine → what it made."""
    return {
        f"{step.name} {step.engine}": dict(step.outputs) for step in build.steps if step.name not in MEASURED
    }


def test_a_rebuild_runs_no_step(rig: Rig, version: Version, recipe: Recipe, built: Build) -> None:
    again = rig.ended(rig.build(version, recipe))
    assert again.phase is BuildPhase.COMPLETED, again.reason
    assert {step.phase for step in again.steps} <= {StepPhase.CACHED, StepPhase.SKIPPED}
    assert outputs(again) == outputs(built)
    assert [engine.digest for engine in again.engines] == [engine.digest for engine in built.engines]


def test_a_fresh_worker_makes_the_same_bytes(
    rig: Rig,
    version: Version,
    recipe: Recipe,
    built: Build,
    worker: subprocess.Popen[bytes],
    tmp_path: Path,
) -> None:
    """Another cache, other folders, and sets in another order. What is cached it doesn't fetch."""
    worker.kill()
    worker.wait(30)
    rig.work("cpu", "-fresh", {"PYTHONHASHSEED": "2", "TMPDIR": str(tmp_path)})
    assert outputs(rig.ended(rig.build(version, recipe))) == outputs(built)
    assert not list((rig.home / "work-fresh" / "blobs").glob("sha256-*"))
    again = rig.ended(rig.build(version, recipe, no_cache=True))
    assert again.phase is BuildPhase.COMPLETED, again.reason
    assert {step.phase for step in again.steps} <= {StepPhase.DONE, StepPhase.SKIPPED}
    assert outputs(again) == outputs(built)
    assert len({engine.digest for engine in again.engines}) == len(recipe.precisions)
