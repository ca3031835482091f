"""What no worker can build is refused before it waits in a queue."""

import onnx
import pytest

from registry.contract.recipes import Recipe
from registry.lifecycle.recipes import NEWEST_OPSET, recipe_faults


def test_the_newest_opset_is_that_of_the_workers_onnx() -> None:
    assert onnx.defs.onnx_opset_version() == NEWEST_OPSET
    assert recipe_faults(Recipe(opset=NEWEST_OPSET)) == ()


@pytest.mark.parametrize("opset", [NEWEST_OPSET + 1, 99_999])
def test_an_opset_that_does_not_exist_is_refused(opset: int) -> None:
    assert recipe_faults(Recipe(opset=opset)) == (
        f"there is no opset {opset}; the newest one is {NEWEST_OPSET}",
    )
