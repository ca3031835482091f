"""The protocol's documents about server and models."""

from registry.contract.versions import TensorSpec
from serving.gateway.table import Arm, Deployment

EXTENSIONS = ("binary_tensor_data",)


def server_document(version: str) -> dict[str, object]:
    return {"name": "slipway", "version": version, "extensions": list(EXTENSIONS)}


def model_document(deployment: Deployment, arm: Arm) -> dict[str, object]:
    """Of the arm that answers: the stable one, or the one of a version that the caller names."""
    signature = arm.slot.plan.signature
    return {
        "name": deployment.name,
        "versions": [other.version_tail for other in deployment.arms if other.entry.socket is not None],
        "platform": "slipway",
        "inputs": [_tensor(spec) for spec in signature.inputs],
        "outputs": [_tensor(spec) for spec in signature.outputs],
        "parameters": {
            "deployment": deployment.entry.deployment,
            "version": arm.entry.version,
            "max_rows": arm.slot.plan.max_rows,
        },
    }


def _tensor(spec: TensorSpec) -> dict[str, object]:
    """A dimension that may vary is -1."""
    shape = [axis if isinstance(axis, int) else -1 for axis in spec.shape]
    return {"name": spec.name, "datatype": spec.dtype.value, "shape": shape}
