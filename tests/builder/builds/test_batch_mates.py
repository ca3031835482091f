"""Dynamic INT8 takes its ranges from the whole batch: what a build makes of that, as its recipe says."""

from typing import Literal

import pytest

from registry.contract.builds import BuildPhase
from registry.contract.engines import Engine, GateOutcome
from registry.contract.recipes import Precision, Recipe, Tolerances
from registry.contract.versions import DatasetRef, Version
from tests.builder import made
from tests.builder.rig import Rig


@pytest.fixture(scope="module")
def version(rig: Rig) -> Version:
    """Of its rows every other is a hundred times as large."""
    for queue in ("verify", "cpu"):
        rig.work(queue)
    rows = [made.raw_image(row * (100 if at % 2 else 1)) for at, row in enumerate(made.images(24))]
    rig.register_set(made.raw_set(rig.home / "rows", rows, [None] * 24, kind="calibration"), "rows")
    return rig.register({"model.onnx": made.conv_model(rig.home / "model.onnx")})


def engine(rig: Rig, version: Version, batch_mates: Literal["refused", "alone", "accepted"]) -> Engine:
    recipe = Recipe(
        precisions=(Precision.INT8_DYNAMIC,),
        calibration=DatasetRef(name="rows", version=1),
        tolerances=Tolerances(min_speed_ratio=0.01, batch_mates=batch_mates),
    )
    build = rig.ended(rig.build(version, recipe))
    assert build.phase is BuildPhase.COMPLETED, build.reason
    (found,) = build.engines
    return found


def test_it_is_refused_where_rows_may_share_a_batch(rig: Rig, version: Version) -> None:
    found = engine(rig, version, "refused")
    assert (found.releasable, found.batchable) == (False, False)
    (reason,) = [gate.reason for gate in found.gates if gate.outcome is GateOutcome.FAILED]
    assert "with the rows that share its batch" in reason
    assert "tolerances.batch_mates" in reason


def test_the_recipe_may_accept_it_row_by_row(rig: Rig, version: Version) -> None:
    found = engine(rig, version, "alone")
    assert (found.releasable, found.batchable) == (True, False)
    assert "a row's answer depends on its batch mates; it is never batched" in found.warnings


def test_the_recipe_may_accept_it_in_batches(rig: Rig, version: Version) -> None:
    found = engine(rig, version, "accepted")
    assert (found.releasable, found.batchable) == (True, True)
    assert found.bench is not None and max(point.rows for point in found.bench.points) > 1
    assert any("batched all the same" in warning for warning in found.warnings)
