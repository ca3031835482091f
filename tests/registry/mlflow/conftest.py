"""A real MLflow: its client's Python, and a tracking server, shared by the tests that need them."""

import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from registry.settings import Settings
from tests.environments import EnvironmentFailed, environment
from tests.registry.mlflow.tracking import tracking_server


@pytest.fixture(scope="session")
def mlflow_python() -> Path:
    """Made at first use, which takes a minute and the network; kept in .cache."""
    try:
        return environment("mlflow")
    except EnvironmentFailed as error:
        pytest.skip(f"there is no environment with mlflow: {error}")


@pytest.fixture(scope="session")
def tracking(mlflow_python: Path) -> Iterator[str]:
    """The URL of a tracking server."""
    folder = Path(tempfile.mkdtemp(prefix="slipway-mlflow-"))
    try:
        with tracking_server(mlflow_python, folder) as url:
            yield url
    finally:
        shutil.rmtree(folder, ignore_errors=True)


@pytest.fixture
def settings(settings: Settings, request: pytest.FixtureRequest) -> Settings:
    """Tests that have a tracking server have it named in the registry's settings."""
    if "tracking" not in request.fixturenames:
        return settings
    return settings.model_copy(update={"mlflow_tracking_urls": (request.getfixturevalue("tracking"),)})
