"""A text version from registration to its engine: its vocabulary reaches every step that reads it."""

import json

from registry.contract.builds import BuildPhase
from registry.contract.engines import GateOutcome
from registry.contract.pipeline import Classify, Padding, PipelineSpec, Tokenise
from registry.contract.recipes import Precision, Recipe, Tolerances
from registry.contract.versions import DatasetRef, VersionContract
from tests.builder import made
from tests.builder.rig import Rig
from tests.builder.steps import test_golden_text as texts

TOLERANCES = Tolerances(min_speed_ratio=0.01, max_loss=0.05, golden_max_abs=1e-5)


def test_a_text_classifier_is_built_and_proven_with_its_vocabulary(rig: Rig) -> None:
    for queue in ("verify", "cpu"):
        rig.work(queue)
    files = {"model.onnx": texts.model(rig.home / "model.onnx")}
    for name, content in (
        ("text/vocab.txt", "\n".join(texts.WORDS)),
        ("golden.jsonl", "\n".join(json.dumps(texts.trained(text)) for text in texts.TEXTS)),
    ):
        files[name] = rig.home / name.replace("/", "-")
        files[name].write_text(content)
    contract = VersionContract(
        signature=texts.SIGNATURE,
        pipeline=PipelineSpec(
            pre=(
                Tokenise(
                    tokenizer="vocabulary",
                    file="text/vocab.txt",
                    ids="ids",
                    mask="mask",
                    max_length=texts.LONGEST,
                    unknown="<unk>",
                    padding=Padding(masking="mask"),
                ),
            ),
            post=(Classify(output="scores", labels=texts.LABELS),),
        ),
        golden="golden.jsonl",
    )
    version = rig.register(files, contract, model="texts")
    rows = [text.encode() for text in texts.TEXTS for _ in range(8)]
    truths = [texts.trained(row.decode())["answer"]["label"] for row in rows]
    rig.register_set(made.raw_set(rig.home / "val", rows, truths), "texts")
    recipe = Recipe(
        precisions=(Precision.FP32,),
        validation=DatasetRef(name="texts", version=1),
        tolerances=TOLERANCES,
    )
    build = rig.ended(rig.build(version, recipe))
    assert build.phase is BuildPhase.COMPLETED, build.reason
    (engine,) = build.engines
    gates = {gate.name: gate for gate in engine.gates}
    assert gates["golden"].outcome is GateOutcome.PASSED, gates["golden"].reason
    assert engine.validation is not None
    assert engine.validation.source_metric == 1.0
    steps = {step.name: step for step in build.steps}
    assert all("files" in steps[name].inputs for name in ("sample", "judge", "golden", "validate", "bench"))
    assert f"files=version:texts@{version.number}" in steps["golden"].reproduce
