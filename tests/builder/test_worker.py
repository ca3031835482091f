"""Real workers against a real registry: sealing, whole builds, crashes, kills and lost leases."""

import base64
import contextlib
import json
import os
import shlex
import subprocess
import sys
import time
from pathlib import Path

import psutil
import pytest

from builder.app import app
from registry.client import builds, uploads
from registry.client.transfer import UploadRejected, digest_of, download, upload
from registry.contract.builds import Build, BuildPhase, StepPhase, StepReport
from registry.contract.engines import Engine, GateOutcome
from registry.contract.recipes import Limits, Precision, Recipe, Tolerances
from registry.contract.versions import DatasetRef, Version
from tests.builder import made
from tests.builder.rig import BUILDER, Rig, until

# Models this small are as fast in any precision, and so few rows prove no single percent.
EASY = Tolerances(min_speed_ratio=0.01, max_loss=0.05)
FP32 = {"precisions": (Precision.FP32,)}


@pytest.fixture(scope="module")
def worker(rig: Rig) -> subprocess.Popen[bytes]:
    """One on each queue."""
    rig.work("verify")
    return rig.work("cpu")


@pytest.fixture(scope="module")
def version(rig: Rig, worker: subprocess.Popen[bytes]) -> Version:
    return rig.register({"model.onnx": made.conv_model(rig.home / "model.onnx")})


@pytest.fixture(scope="module")
def recipe(rig: Rig, version: Version) -> Recipe:
    """All precisions, with a calibration set and a labelled validation set."""
    rows = made.images(160)
    truths = made.answers(rig.home / "model.onnx", rows)
    validation = made.raw_set(rig.home / "val", [made.raw_image(row) for row in rows[40:]], truths[40:])
    calibration = made.raw_set(
        rig.home / "cal", [made.raw_image(row) for row in rows[:40]], [None] * 40, kind="calibration"
    )
    rig.register_set(validation, "val")
    rig.register_set(calibration, "cal")
    return Recipe(
        precisions=(Precision.FP32, Precision.INT8_STATIC, Precision.INT8_DYNAMIC),
        calibration=DatasetRef(name="cal", version=1),
        validation=DatasetRef(name="val", version=1),
        tolerances=EASY,
    )


@pytest.fixture(scope="module")
def built(rig: Rig, version: Version, recipe: Recipe) -> Build:
    return rig.ended(rig.build(version, recipe))


def fresh(rig: Rig, seed: int) -> Version:
    """A version that no step has seen yet."""
    path = made.conv_model(rig.home / f"fresh-{seed}.onnx", more=made.weights(seed))
    return rig.register({"model.onnx": path})


def outcomes(engine: Engine) -> dict[str, GateOutcome]:
    return {gate.name: gate.outcome for gate in engine.gates}


def step_of(build: Build, name: str, engine: str | None = None) -> StepReport:
    (found,) = [step for step in build.steps if (step.name, step.engine) == (name, engine)]
    return found


def test_workers_start_without_a_warning(rig: Rig, worker: subprocess.Popen[bytes]) -> None:
    """Python's warnings are errors in these processes; Celery's own complaints would be in the log."""
    for queue in ("verify", "cpu"):
        assert "WARNING" not in rig.log(queue)
        assert BUILDER not in rig.log(queue)
        assert rig.registry.url in rig.log(queue)


def test_uploads_are_verified_and_a_wrong_digest_is_rejected(
    rig: Rig, worker: subprocess.Popen[bytes], tmp_path: Path
) -> None:
    (tmp_path / "file").write_bytes(os.urandom(3 << 20))
    with rig.client as client:
        digest = upload(client, tmp_path / "file")
        assert client(uploads.blob(digest)).size == 3 << 20
        with pytest.raises(UploadRejected):
            upload(client, tmp_path / "file", digest="sha256-" + "0" * 64)


def test_a_build_reports_every_engine_with_its_proofs(rig: Rig, built: Build, tmp_path: Path) -> None:
    assert built.phase is BuildPhase.COMPLETED, built.reason
    engines = {engine.precision: engine for engine in built.engines}
    assert set(engines) == set(built.recipe.precisions)
    static = engines[Precision.INT8_STATIC]
    assert outcomes(static) == {
        "parity": GateOutcome.PASSED,
        "golden": GateOutcome.UNPROVEN,
        "speed": GateOutcome.PASSED,
        "validation": GateOutcome.PASSED,
    }
    assert (static.releasable, static.unproven, static.quantised) == (True, True, ("conv",))
    assert static.validation is not None
    assert static.bench is not None
    assert static.validation.rows == 120
    assert {reference.observable for reference in static.references} == {"label", "score"}
    with rig.client as client:
        assert download(client, static.digest, tmp_path / "engine").stat().st_size == static.size


def test_a_build_tells_its_steps_and_logs_them(rig: Rig, built: Build) -> None:
    with rig.client as client:
        log = client(builds.log(built.id))
    assert "── quantise (int8-static/ort.cpu)" in log
    assert log.rstrip().endswith("completed")
    check = step_of(built, "check")
    assert check.phase is StepPhase.DONE
    assert (check.peak_memory_bytes or 0) > 10 << 20
    assert (check.duration_s or 0) > 0
    assert "python -m builder.steps check --input model=sha256-" in check.reproduce


def test_a_second_build_of_the_same_is_all_from_the_cache(
    rig: Rig, built: Build, version: Version, recipe: Recipe
) -> None:
    again = rig.ended(rig.build(version, recipe))
    assert again.phase is BuildPhase.COMPLETED, again.reason
    assert {step.phase for step in again.steps} <= {StepPhase.CACHED, StepPhase.SKIPPED}
    assert [engine.digest for engine in again.engines] == [engine.digest for engine in built.engines]


def test_a_reproduce_line_gives_the_same_bytes(rig: Rig, built: Build, tmp_path: Path) -> None:
    step = step_of(built, "quantise", "int8-static/ort.cpu")
    ran = subprocess.run(
        [sys.executable, *shlex.split(step.reproduce)[1:]],
        cwd=tmp_path,
        env={
            "PATH": os.environ["PATH"],
            "SLIPWAY_REGISTRY_URL": rig.registry.url,
            "SLIPWAY_TOKEN": BUILDER,
            "SLIPWAY_WORK_DIR": str(tmp_path / "elsewhere"),
        },
        capture_output=True,
        text=True,
        check=False,
    )
    assert ran.returncode == 0, ran.stdout + ran.stderr
    assert digest_of(tmp_path / "quantise/engine.onnx") == step.outputs["engine.onnx"]


def test_an_engine_that_fails_a_gate_is_reported_with_the_reason(
    rig: Rig, version: Version, recipe: Recipe
) -> None:
    strict = EASY.model_copy(update={"min_speed_ratio": 1000.0})
    only = {"precisions": (Precision.INT8_STATIC,), "tolerances": strict}
    build = rig.ended(rig.build(version, recipe.model_copy(update=only)))
    assert build.phase is BuildPhase.COMPLETED, build.reason
    (engine,) = build.engines
    assert not engine.releasable
    assert outcomes(engine)["speed"] is GateOutcome.FAILED
    assert outcomes(engine)["validation"] is GateOutcome.SKIPPED
    assert any("at least ×1000 is wanted" in reason for reason in engine.reasons)


def test_a_version_that_can_not_be_built_fails_with_what_to_do(
    rig: Rig, worker: subprocess.Popen[bytes], tmp_path: Path
) -> None:
    (tmp_path / "model.onnx").write_bytes(b"PK\x03\x04" + bytes(100))
    build = rig.ended(rig.build(rig.register({"model.onnx": tmp_path / "model.onnx"}), Recipe()))
    assert build.phase is BuildPhase.FAILED
    assert "not an ONNX file but a zip archive" in build.reason
    assert [step.name for step in build.steps] == ["sample", "import"]
    assert build.steps[-1].phase is StepPhase.REFUSED


def test_golden_pairs_that_differ_refuse_the_engine_by_name(
    rig: Rig, recipe: Recipe, worker: subprocess.Popen[bytes]
) -> None:
    model = made.conv_model(rig.home / "golden/model.onnx")
    row = made.images(1)[0]
    (label,) = made.answers(model, [row])
    other = next(one for one in made.LABELS if one != label)
    pair = {"raw": base64.b64encode(made.raw_image(row)).decode(), "answer": {"label": other}}
    (rig.home / "golden/golden.jsonl").write_text(json.dumps(pair) + "\n")
    contract = made.CONTRACT.model_copy(update={"golden": "golden.jsonl"})
    files = {"model.onnx": model, "golden.jsonl": rig.home / "golden/golden.jsonl"}
    build = rig.ended(rig.build(rig.register(files, contract, "golden"), recipe.model_copy(update=FP32)))
    (engine,) = build.engines
    assert outcomes(engine)["golden"] is GateOutcome.FAILED
    assert not engine.releasable
    wanted = f"pair 1, post-processing, answer.label: wanted {other!r}, got {label!r}"
    assert any(wanted in reason for reason in engine.reasons)


def test_a_step_that_meets_its_limit_fails_the_build_and_not_the_worker(
    rig: Rig, version: Version, recipe: Recipe, worker: subprocess.Popen[bytes]
) -> None:
    tight = recipe.model_copy(update={**FP32, "limits": Limits(step_timeout_s=0.05)})
    build = rig.ended(rig.build(version, tight, no_cache=True))
    assert build.phase is BuildPhase.FAILED
    assert "took longer than its 0.05 s" in build.reason
    assert worker.poll() is None
    assert rig.ended(rig.build(version, recipe.model_copy(update=FP32))).phase is BuildPhase.COMPLETED


def test_a_wake_up_that_comes_twice_or_for_nothing_does_no_harm(
    rig: Rig, built: Build, version: Version, recipe: Recipe
) -> None:
    with app.connection_for_write(rig.addresses.redis_url) as connection:
        for _ in range(2):
            app.send_task("slipway.build", args=["tsk_unknown"], queue="cpu", connection=connection)
    again = rig.ended(rig.build(version, recipe.model_copy(update=FP32)))
    assert again.phase is BuildPhase.COMPLETED
    assert rig.see(built.id).revision == built.revision


def test_a_cancelled_build_stops_its_step(rig: Rig, recipe: Recipe, worker: subprocess.Popen[bytes]) -> None:
    build_id = rig.build(fresh(rig, 21), recipe)
    until("running", lambda: len(rig.see(build_id).steps) >= 1)
    with rig.client as client:
        client(builds.cancel(build_id))

    def steps() -> list[psutil.Process]:
        found = []
        for one in psutil.Process(worker.pid).children(recursive=True):
            with contextlib.suppress(psutil.NoSuchProcess):
                if "builder.steps" in " ".join(one.cmdline()):
                    found.append(one)
        return found

    until("no step left", lambda: not steps())
    assert rig.see(build_id).phase is BuildPhase.CANCELLED
    assert worker.poll() is None


def test_a_build_goes_on_when_the_registry_comes_back(rig: Rig, recipe: Recipe) -> None:
    build_id = rig.build(fresh(rig, 22), recipe.model_copy(update=FP32))
    until("running", lambda: len(rig.see(build_id).steps) >= 2)
    rig.registry.stop()
    time.sleep(2)
    rig.registry.start()
    build = rig.ended(build_id)
    assert (build.phase, build.attempt) == (BuildPhase.COMPLETED, 1), build.reason


def test_a_worker_that_is_asked_to_stop_stops_with_its_steps(rig: Rig, recipe: Recipe) -> None:
    busy = rig.workers[-1]
    build_id = rig.build(fresh(rig, 24), recipe.model_copy(update=FP32))
    until("running", lambda: len(rig.see(build_id).steps) >= 2)
    family = psutil.Process(busy.pid).children(recursive=True)
    busy.terminate()
    assert busy.wait(60) is not None
    until("no process left", lambda: not any(one.is_running() for one in family))
    assert rig.see(build_id).phase is BuildPhase.RUNNING
