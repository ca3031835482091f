"""A regressor and a detector through real builds: their own metric decides, and is told."""

import json
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest

from registry.client import versions
from registry.contract.builds import Build, BuildPhase
from registry.contract.engines import Engine, GateOutcome
from registry.contract.recipes import Precision, Recipe, Tolerances
from registry.contract.versions import DatasetRef, Metric, Version, VersionContract
from tests.builder import made
from tests.builder.builds.test_whole_way import houses, lamps, nights, prices
from tests.builder.rig import Rig

# The models are so small that parity is no question of theirs.
EASY = Tolerances(
    min_cosine=0.5, min_sqnr_db=1, max_flip_rate=1, min_speed_ratio=0.001, max_loss=0.05, golden_max_abs=1
)


def registered(
    rig: Rig, name: str, model: tuple[Path, VersionContract], raws: Sequence[bytes], labels: Sequence[str]
) -> Version:
    """With a validation set of the same name, whose labels are JSON in the index."""
    folder = made.raw_set(rig.home / f"{name}-set", raws, [None] * len(raws), name=name)
    lines = [f'{{"key": "row-{at:05d}", "label": {label}}}' for at, label in enumerate(labels)]
    (folder / "index.jsonl").write_text("\n".join(lines) + "\n")
    described = json.loads((folder / "dataset.json").read_text())
    described["index"] = made.entry(folder / "index.jsonl").model_dump(mode="json")
    (folder / "dataset.json").write_text(json.dumps(described))
    rig.register_set(folder, name)
    return rig.register({"model.onnx": model[0]}, model[1], model=name)


def built(rig: Rig, version: Version, *precisions: Precision) -> Build:
    recipe = Recipe(
        precisions=precisions, validation=DatasetRef(name=version.model, version=1), tolerances=EASY
    )
    build = rig.ended(rig.build(version, recipe))
    assert build.phase is BuildPhase.COMPLETED, build.reason
    return build


def validation_of(engine: Engine) -> tuple[GateOutcome, str]:
    (gate,) = [gate for gate in engine.gates if gate.name == "validation"]
    return gate.outcome, gate.reason


def metrics(rig: Rig, version: Version) -> list[Metric]:
    with rig.client as client:
        return list(client(versions.metrics(version.model, version.number)).items)


@pytest.fixture(scope="module")
def workers(rig: Rig) -> None:
    for queue in ("verify", "cpu"):
        rig.work(queue)


def test_a_regressor_is_judged_by_its_errors(rig: Rig, workers: None) -> None:
    """Its INT8 loses far more than a twentieth of the source's error, and is refused for that alone."""
    raws, values = houses(240)
    noise = np.random.default_rng(2).laplace(0, 5, len(values))
    labels = [f"{value:.3f}" for value in values + noise]
    version = registered(rig, "prices", prices(rig.home / "prices.onnx"), raws, labels)
    build = built(rig, version, Precision.FP32, Precision.INT8_DYNAMIC)
    exact, coarse = build.engines
    outcome, reason = validation_of(exact)
    assert outcome is GateOutcome.PASSED, reason
    assert "mae " in reason and "of the source's" in reason
    assert exact.validation is not None and coarse.validation is not None
    assert exact.validation.source_metric == pytest.approx(float(np.abs(noise).mean()), rel=0.05)
    assert validation_of(coarse)[0] is GateOutcome.FAILED, validation_of(coarse)[1]
    assert not coarse.releasable
    assert coarse.validation.engine_metric is not None
    assert coarse.validation.engine_metric > 2 * exact.validation.source_metric
    (price, _) = exact.references
    assert (price.kind, len(price.edges), sum(price.counts)) == ("value", 31, 240)
    (told,) = metrics(rig, version)
    assert (told.name, told.higher_is_better, told.measured_by, told.n) == ("mae", False, "pipeline", 240)
    assert (told.engine, told.value) == (exact.digest, exact.validation.engine_metric)


def test_a_detector_is_judged_by_its_boxes(rig: Rig, workers: None) -> None:
    """One lamp in twenty is not in the labels, and every picture's first box is one pixel off."""
    raws, boxes = nights(120)
    labels = []
    for at, found in enumerate(boxes):
        kept = found[1:] if at % 5 == 0 else found
        moved = [[x + 1, y, x2 + 1, y2] for x, y, x2, y2 in kept]
        labels.append(json.dumps([{"label": "lamp", "box": box} for box in moved]))
    version = registered(rig, "lamps", lamps(rig.home / "lamps.onnx"), raws, labels)
    (engine,) = built(rig, version, Precision.FP32).engines
    outcome, reason = validation_of(engine)
    assert outcome is GateOutcome.PASSED, reason
    lit = sum(len(one) for one in boxes)
    spurious = sum(bool(boxes[at]) for at in range(0, 120, 5))
    f1 = 2 * (lit - spurious) / (2 * (lit - spurious) + spurious)
    assert engine.validation is not None
    assert engine.validation.source_metric == engine.validation.engine_metric == pytest.approx(f1)
    assert [one.kind for one in engine.references] == ["count", "score"]
    (told,) = metrics(rig, version)
    assert (told.name, told.value) == ("f1", engine.validation.engine_metric)
