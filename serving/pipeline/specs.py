"""Looking a tensor up in a signature."""

from registry.contract.versions import Signature, TensorSpec
from serving.pipeline.errors import PipelineMismatch


def input_spec(signature: Signature, name: str, step: str) -> TensorSpec:
    """Raises PipelineMismatch when the signature has no such input."""
    for spec in signature.inputs:
        if spec.name == name:
            return spec
    names = ", ".join(spec.name for spec in signature.inputs)
    raise PipelineMismatch(f"{step} makes {name!r}, which is no input of the signature ({names})")
