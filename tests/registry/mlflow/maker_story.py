"""Leaves two versions of `Old Name` at a tracking server; run by a Python that has mlflow and none of ours.

usage: maker_story.py TRACKING_URL
"""

import sys
import tempfile
from pathlib import Path

import mlflow
from mlflow import MlflowClient

CODE = """
import mlflow

class Same(mlflow.pyfunc.PythonModel):
    def predict(self, model_input):
        return model_input

mlflow.models.set_model(Same())
"""


def main(tracking: str) -> None:
    mlflow.set_tracking_uri(tracking)
    client = MlflowClient()
    with tempfile.TemporaryDirectory() as folder:
        script = Path(folder) / "model.py"
        script.write_text(CODE)
        for depth in (3, 4):
            with mlflow.start_run():
                mlflow.log_param("depth", depth)
                mlflow.log_metric("accuracy", 0.5 + depth / 16)
                mlflow.pyfunc.log_model(
                    name="m",
                    python_model=str(script),
                    pip_requirements=[],
                    registered_model_name="Old Name",
                )
    client.set_registered_model_tag("Old Name", "team", "ml")
    client.set_model_version_tag("Old Name", "2", "long", "x" * 300)
    client.set_model_version_tag("Old Name", "2", "short", "y")
    client.set_registered_model_alias("Old Name", "champion", "2")


if __name__ == "__main__":
    main(*sys.argv[1:])
