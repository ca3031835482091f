"""Versions of other frameworks through a real registry and real workers: to an engine, or to a clear no."""

import json
import pickle
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from builder.steps.importing import ImportResult
from builder.steps.step import StepEnding, StepOutcome
from registry.client import builds
from registry.contract.builds import Build, BuildPhase, StepPhase, StepReport
from registry.contract.recipes import Recipe
from registry.contract.versions import Dtype, Framework, Version, VersionContract
from tests.builder.frontends.inside.cases import signature, tensor
from tests.builder.rig import Rig, until

# The first one here may have to make an environment.
pytestmark = pytest.mark.timeout(1200)

DIGITS = VersionContract(
    signature=signature(
        tensor("x", "batch", 64),
        tensor("label", "batch", dtype=Dtype.INT64),
        tensor("scores", "batch", 10),
        outputs=2,
    )
)
RECIPE = Recipe(optimise=False)


@pytest.fixture(scope="module")
def careful(rig: Rig) -> subprocess.Popen[bytes]:
    """A worker as it is by default: it imports nothing that executes code."""
    rig.work("verify")
    return rig.work("cpu")


@pytest.fixture(scope="module")
def trusting(rig: Rig, careful: subprocess.Popen[bytes]) -> Iterator[subprocess.Popen[bytes]]:
    """Takes the careful worker's place, so it comes after the tests that need that one."""
    careful.kill()
    careful.wait(30)
    yield rig.work("cpu", "-trusting", {"SLIPWAY_ALLOW_CODE": "true"})


def imported(build: Build) -> StepReport:
    (found,) = [step for step in build.steps if step.name == "import"]
    return found


@pytest.fixture(scope="module")
def boosted(rig: Rig, careful: subprocess.Popen[bytes], trees_home: Path) -> Version:
    model = trees_home / "lightgbm" / "classifier.version" / "model.txt"
    return rig.register({"model.txt": model}, DIGITS, "boosted", Framework.LIGHTGBM)


@pytest.fixture(scope="module")
def built(rig: Rig, boosted: Version) -> Build:
    return rig.ended(rig.build(boosted, RECIPE))


def test_a_lightgbm_version_becomes_an_engine_with_its_tools_recorded(built: Build) -> None:
    assert built.phase is BuildPhase.COMPLETED, built.reason
    (engine,) = built.engines
    assert engine.tools["lightgbm"] == "4.7.0"
    assert "onnxruntime" in engine.tools
    step = imported(built)
    assert "deviates by at most" in step.reason
    assert "--environment trees --walled" in step.reproduce


def test_building_it_again_takes_all_from_the_cache(rig: Rig, boosted: Version, built: Build) -> None:
    again = rig.ended(rig.build(boosted, RECIPE))
    assert {step.phase for step in again.steps} <= {StepPhase.CACHED, StepPhase.SKIPPED}
    assert [engine.digest for engine in again.engines] == [engine.digest for engine in built.engines]


@pytest.fixture(scope="module")
def pickled(rig: Rig, boosted: Version, trees_home: Path) -> Version:
    model = trees_home / "sklearn" / "pickled.version" / "model.pkl"
    return rig.register({"model.pkl": model}, DIGITS, "pickled", Framework.SKLEARN)


def test_a_pickle_is_refused_by_default(rig: Rig, pickled: Version) -> None:
    build = rig.ended(rig.build(pickled, RECIPE))
    assert build.phase is BuildPhase.FAILED
    assert "executes code when it is loaded" in build.reason
    assert "SLIPWAY_ALLOW_CODE=true" in build.reason


def test_a_pickle_is_imported_where_the_policy_allows_it(
    rig: Rig, pickled: Version, trusting: subprocess.Popen[bytes]
) -> None:
    build_id = rig.build(pickled, RECIPE)
    until("imported", lambda: any(step.name == "check" for step in rig.see(build_id).steps))
    with rig.client as client:
        build = client(builds.cancel(build_id))
    assert imported(build).phase is StepPhase.DONE
    assert "LogisticRegression" in imported(build).reason


class Hostile:
    """When it is unpickled it claims to be done, and leaves a link to a file of the machine as its model."""

    def __init__(self, code: str) -> None:
        self.code = code

    def __reduce__(self) -> tuple[object, tuple[str, dict[str, object]]]:
        return exec, (self.code, {})


def test_a_hostile_pickle_takes_nothing_out_of_its_sandbox(
    rig: Rig, trusting: subprocess.Popen[bytes], tmp_path: Path
) -> None:
    secret = tmp_path / "secret"
    secret.write_text("secret")
    result = ImportResult(says="all is well", opset=18, producer="me", nodes=1)
    claimed = StepOutcome(ending=StepEnding.DONE, reason="well", result=result.model_dump_json())
    code = (
        "import os\n"
        f"os.symlink({str(secret)!r}, 'model.onnx')\n"
        f"open('outcome.json', 'w').write({json.dumps(claimed.model_dump(mode='json'))!r})\n"
        "os._exit(0)"
    )
    (tmp_path / "model.pkl").write_bytes(pickle.dumps(Hostile(code)))
    version = rig.register({"model.pkl": tmp_path / "model.pkl"}, DIGITS, "hostile", Framework.SKLEARN)
    build = rig.ended(rig.build(version, RECIPE))
    assert build.phase is BuildPhase.FAILED
    assert "left model.onnx as something else than a file of its own" in build.reason
    assert trusting.poll() is None
