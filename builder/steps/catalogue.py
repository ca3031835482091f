"""All steps by name. Only the one that is asked for is imported: a step's process should begin at once."""

from importlib import import_module
from typing import Any

from builder.steps.step import Step

MODULES = {
    "import": "importing",
    "sample": "sample",
    "check": "check",
    "optimise": "optimise",
    "compile-openvino": "compile_openvino",
    "compile-tensorrt": "compile_tensorrt",
    "compile-torch": "compile_torch",
    "calibrate": "calibrate",
    "coverage": "coverage",
    "quantise": "quantise",
    "bisect": "bisect",
    "prune": "prune",
    "shrink": "shrink",
    "parity": "parity",
    "golden": "golden",
    "bench": "bench",
    "judge": "judge",
    "validate": "validate",
}


def step_named(name: str) -> Step[Any, Any]:
    """Raises KeyError."""
    found = import_module(f"builder.steps.{MODULES[name]}").STEP
    assert isinstance(found, Step)
    assert found.name == name
    return found
