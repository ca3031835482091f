"""What can't be built is said before any work, and keys change with what matters."""

from datetime import UTC, datetime

import pytest

from builder.builds.inputs import BlobInput
from builder.builds.runner import reproduce_line, step_key
from builder.builds.work import Work, check_recipe, engine_key
from builder.steps import optimise
from builder.steps.optimise import OptimiseParameters
from builder.steps.step import Refused
from registry.contract.recipes import Precision, Recipe
from registry.contract.versions import FileEntry, Framework, Lineage, Version, VersionContract, VersionStage
from tests.builder import made

DIGEST = "sha256-" + "a" * 64
OTHER = "sha256-" + "b" * 64


def work(recipe: Recipe, contract: VersionContract = made.CONTRACT, digest: str = DIGEST) -> Work:
    now = datetime(2026, 1, 1, tzinfo=UTC)
    version = Version(
        model="classifier",
        number=1,
        stage=VersionStage.READY,
        stage_reason="",
        stage_since=now,
        framework=Framework.ONNX,
        files=(FileEntry(path="model.onnx", digest=DIGEST, size=1),),
        digest=digest,
        contract=contract,
        proven=False,
        lineage=Lineage(),
        description="",
        tags={},
        revision=1,
        created_at=now,
        created_by="test",
    )
    return Work(version, recipe, None, None, threads=1)


@pytest.mark.parametrize(
    ("recipe", "told"),
    [
        (Recipe(targets=("ort.cuda.sm_90",)), r"ort\.cuda\.sm_90; it has .*ort\.cpu"),
        (Recipe(precisions=(Precision.INT8_STATIC,)), "register a calibration set"),
    ],
)
def test_what_this_worker_can_not_build_is_refused_with_what_it_can(recipe: Recipe, told: str) -> None:
    with pytest.raises(Refused, match=told):
        check_recipe(work(recipe))


def test_golden_pairs_must_be_a_file_of_the_version() -> None:
    with pytest.raises(Refused, match=r"'pairs\.jsonl', which is no file"):
        check_recipe(work(Recipe(), made.CONTRACT.model_copy(update={"golden": "pairs.jsonl"})))


def test_a_step_key_changes_with_inputs_parameters_and_machine_and_with_nothing_else() -> None:
    basic = OptimiseParameters(target="ort.cpu", level="basic")
    extended = OptimiseParameters(target="ort.cpu", level="extended")
    inputs = {"model": BlobInput(DIGEST), "sample": BlobInput(OTHER)}
    key = step_key(optimise.STEP, basic, inputs, {})
    assert key == step_key(optimise.STEP, basic, dict(reversed(inputs.items())), {})
    others = {
        step_key(optimise.STEP, extended, inputs, {}),
        step_key(optimise.STEP, basic, {**inputs, "model": BlobInput(OTHER)}, {}),
        step_key(optimise.STEP, basic, inputs, {"cores": "2"}),
    }
    assert len(others | {key}) == 4


def test_an_engine_key_changes_with_the_version_and_its_own_precision_only() -> None:
    both = work(Recipe(precisions=(Precision.FP32, Precision.INT8_DYNAMIC)))
    alone = work(Recipe(precisions=(Precision.FP32,)))
    key = engine_key(both, Precision.FP32, "ort.cpu")
    assert key == engine_key(alone, Precision.FP32, "ort.cpu")
    assert key != engine_key(both, Precision.INT8_DYNAMIC, "ort.cpu")
    assert key != engine_key(work(Recipe(), digest=OTHER), Precision.FP32, "ort.cpu")
    assert key != engine_key(work(Recipe(optimise=False)), Precision.FP32, "ort.cpu")


def test_a_reproduce_line_can_be_pasted_into_a_shell() -> None:
    line = reproduce_line(
        optimise.STEP, OptimiseParameters(target="ort.cpu", level="basic"), {"model": BlobInput(DIGEST)}
    )
    assert line == (
        f"python -m builder.steps optimise --input model={DIGEST} "
        """--parameters '{"target":"ort.cpu","level":"basic"}' --out optimise"""
    )
