"""A recipe that ruins the model is mended by the search, end to end; the second time nothing is run again."""

import numpy as np
from onnx import helper

from registry.contract.builds import BuildPhase, StepPhase
from registry.contract.engines import GateOutcome
from registry.contract.recipes import Int8Options, Precision, Recipe, SearchOptions, Tolerances
from registry.contract.versions import BatchRule, DatasetRef
from tests.builder import made
from tests.builder.rig import Rig

RECIPE = Recipe(
    precisions=(Precision.INT8_STATIC,),
    calibration=DatasetRef(name="cal", version=1),
    validation=DatasetRef(name="val", version=1),
    int8=Int8Options(operators=("Conv", "Gemm")),
    tolerances=Tolerances(min_speed_ratio=0.001, min_sqnr_db=14, max_flip_rate=0.1, max_loss=0.08),
)


def test_the_search_finds_what_the_recipe_missed(rig: Rig) -> None:
    for queue in ("verify", "cpu"):
        rig.work(queue)
    # A channel that is fifty times as large as the others: in 8 bits with one scale these are lost.
    nodes = made.conv_nodes()
    nodes[3:4] = [
        helper.make_node("Mul", ["pooled", "stretch"], ["stretched"], "stretch"),
        helper.make_node("Flatten", ["stretched"], ["flat"], "flatten"),
    ]
    stretch = np.ones((1, 8, 1, 1), np.float32)
    stretch[0, 0] = 50
    dense = made.weights()["dense"].copy()
    dense[0] /= 50
    model = made.conv_model(rig.home / "m.onnx", nodes=nodes, more={"stretch": stretch, "dense": dense})
    contract = made.CONTRACT.model_copy(update={"batch": BatchRule(max_rows=1)})
    version = rig.register({"model.onnx": model}, contract, model="stretched")
    for name, rows in (("cal", made.images(30)), ("val", made.images(160, seed=8))):
        raws = [made.raw_image(row) for row in rows]
        labels = list(made.answers(model, rows)) if name == "val" else [None] * len(rows)
        kind = "calibration" if name == "cal" else "validation"
        rig.register_set(made.raw_set(rig.home / name, raws, labels, kind=kind), name)

    refused = rig.ended(rig.build(version, RECIPE)).engines[0]
    parity = next(gate for gate in refused.gates if gate.name == "parity")
    assert parity.outcome is GateOutcome.FAILED
    assert refused.calibration is not None and refused.calibration.clipped == 0
    assert refused.bisection is not None
    assert (refused.bisection.node, refused.bisection.confirmed) == ("dense", True)

    searching = RECIPE.model_copy(update={"search": SearchOptions(candidates=12, seconds=300)})
    build = rig.ended(rig.build(version, searching))
    (engine,) = build.engines
    found = engine.search
    assert build.phase is BuildPhase.COMPLETED and engine.releasable and found is not None, build.reason
    assert (found.ended, found.chosen) == ("found", found.candidates[-1].name)
    assert found.tried == len(found.candidates) > 1
    assert found.candidates[0].refused_by[0] == "parity"
    assert found.ranking[0].node == "dense"
    assert "dense" not in engine.quantised
    assert engine.bisection == refused.bisection

    again = rig.ended(rig.build(version, searching))
    assert {step.phase for step in again.steps} <= {StepPhase.CACHED, StepPhase.SKIPPED}
    assert again.engines[0].search == found
    assert again.engines[0].digest == engine.digest
