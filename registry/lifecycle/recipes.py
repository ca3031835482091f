"""Recipes: the default one, what is wrong with one, and which queue builds it. Pure."""

from collections.abc import Iterator
from typing import assert_never

from registry.contract.recipes import Precision, Recipe
from registry.contract.versions import Framework

# Of the ONNX release that workers have.
NEWEST_OPSET = 28
CALIBRATED = (Precision.INT8_STATIC,)


def default_recipe(framework: Framework) -> Recipe:
    """FP32 on the CPU. Tree ensembles and linear models have no graph worth optimising."""
    match framework:
        case Framework.ONNX | Framework.PYTORCH | Framework.TENSORFLOW | Framework.PYFUNC:
            return Recipe()
        case Framework.LIGHTGBM | Framework.SKLEARN | Framework.XGBOOST:
            return Recipe(optimise=False)
        case _:
            assert_never(framework)


def recipe_faults(recipe: Recipe) -> tuple[str, ...]:
    """Sentences that say what can't be built so."""
    return tuple(_faults(recipe))


def _faults(recipe: Recipe) -> Iterator[str]:
    if not recipe.precisions:
        yield "the recipe has no precision; name at least one, for example fp32"
    if not recipe.targets:
        yield "the recipe has no target; name at least one, for example ort.cpu"
    if len(set(recipe.precisions)) != len(recipe.precisions):
        yield "the recipe names a precision twice"
    if len(set(recipe.targets)) != len(recipe.targets):
        yield "the recipe names a target twice"
    calibrated = [precision for precision in recipe.precisions if precision in CALIBRATED]
    if calibrated and recipe.calibration is None:
        yield f"{calibrated[0]} needs a calibration set: name one in recipe.calibration"
    if recipe.calibration is not None and recipe.calibration == recipe.validation:
        yield "an engine can't be judged on the rows it was calibrated on: name another validation set"
    if recipe.opset is not None and recipe.opset > NEWEST_OPSET:
        yield f"there is no opset {recipe.opset}; the newest one is {NEWEST_OPSET}"
    queues = sorted({queue_of(target) for target in recipe.targets})
    if len(queues) > 1:
        yield f"the targets need different machines ({', '.join(queues)}): make one build for each"


def queue_of(target: str) -> str:
    """The workers that can build for a target: `cpu`, or `gpu.<compute capability>`."""
    *_, last = target.split(".")
    return f"gpu.{last}" if last.startswith("sm_") else "cpu"
