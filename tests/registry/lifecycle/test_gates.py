"""Whether an engine may be released follows from its gates alone."""

import pytest

from registry.contract.engines import Gate, GateOutcome
from registry.contract.recipes import Precision, Recipe
from registry.contract.versions import DatasetRef, Framework
from registry.lifecycle.gates import judge
from registry.lifecycle.recipes import default_recipe, queue_of, recipe_faults


def _gates(**outcomes: GateOutcome) -> tuple[Gate, ...]:
    names = ("golden", "parity", "validation", "speed")
    return tuple(
        Gate.model_validate(
            {"name": name, "outcome": outcomes.get(name, GateOutcome.PASSED), "reason": f"about {name}"}
        )
        for name in names
    )


def test_all_passed_is_releasable() -> None:
    judged = judge(_gates(), proven=True)
    assert (judged.releasable, judged.unproven, judged.reasons) == (True, False, ())


@pytest.mark.parametrize("name", ["golden", "parity", "validation", "speed"])
@pytest.mark.parametrize("outcome", [GateOutcome.FAILED, GateOutcome.INSUFFICIENT])
def test_a_gate_that_speaks_against_it_is_told_word_for_word(name: str, outcome: GateOutcome) -> None:
    judged = judge(_gates(**{name: outcome}), proven=True)
    assert (judged.releasable, judged.reasons) == (False, (f"about {name}",))


def test_without_golden_pairs_it_is_unproven_and_policy_decides() -> None:
    judged = judge(_gates(golden=GateOutcome.UNPROVEN), proven=False)
    assert (judged.releasable, judged.unproven) == (True, True)


def test_without_a_validation_set_it_is_unproven() -> None:
    judged = judge(_gates(validation=GateOutcome.UNPROVEN), proven=True)
    assert (judged.releasable, judged.unproven) == (True, True)


def test_golden_pairs_that_were_not_checked_prove_nothing() -> None:
    judged = judge(_gates(golden=GateOutcome.SKIPPED), proven=True)
    assert not judged.releasable


def test_no_gates_at_all_is_not_passed() -> None:
    judged = judge((), proven=False)
    assert not judged.releasable
    assert "parity" in judged.reasons[0]


def test_a_version_without_pairs_is_never_proven() -> None:
    assert judge(_gates(), proven=False).unproven


@pytest.mark.parametrize(
    ("recipe", "said"),
    [
        (Recipe(precisions=()), "no precision"),
        (Recipe(targets=()), "no target"),
        (Recipe(precisions=(Precision.FP32, Precision.FP32)), "a precision twice"),
        (Recipe(precisions=(Precision.INT8_STATIC,)), "needs a calibration set"),
        (Recipe(targets=("ort.cpu", "tensorrt.sm_90")), "need different machines (cpu, gpu.sm_90)"),
        (
            Recipe(
                calibration=DatasetRef(name="rows", version=1), validation=DatasetRef(name="rows", version=1)
            ),
            "judged on the rows it was calibrated on",
        ),
    ],
)
def test_what_a_recipe_can_not_be(recipe: Recipe, said: str) -> None:
    (fault,) = recipe_faults(recipe)
    assert said in fault


@pytest.mark.parametrize("framework", Framework)
def test_every_framework_has_a_default_that_can_be_built(framework: Framework) -> None:
    assert recipe_faults(default_recipe(framework)) == ()


@pytest.mark.parametrize(
    ("target", "queue"),
    [("ort.cpu", "cpu"), ("ort.cpu.avx512_vnni", "cpu"), ("ort.cuda.sm_90", "gpu.sm_90")],
)
def test_the_queue_of_a_target(target: str, queue: str) -> None:
    assert queue_of(target) == queue
