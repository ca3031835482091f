"""The call by which versions are brought over from MLflow."""

from registry.client.call import Call, path
from registry.contract.mlflow import MlflowVersion
from registry.contract.versions import Version


def bring(body: MlflowVersion) -> Call[Version]:
    """A sealed version of files that are uploaded already; its lineage names its origin."""
    return Call("POST", path("mlflow", "versions"), Version, body)
