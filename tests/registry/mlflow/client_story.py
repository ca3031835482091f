"""What a user of MLflow does, with his unmodified client; run by a Python that has mlflow and none of ours.

usage: client_story.py TRACKING_URL REGISTRY_URL. What he saw is printed as one JSON object.
"""

import json
import sys
import tempfile
from pathlib import Path

import mlflow
from mlflow import MlflowClient
from mlflow.exceptions import MlflowException, RestException

CODE = """
import mlflow

class Doubler(mlflow.pyfunc.PythonModel):
    def predict(self, model_input):
        return [2 * each for each in model_input]

mlflow.models.set_model(Doubler())
"""
seen: dict[str, object] = {}


def refusal(act: object, *given: object, **more: object) -> str:
    try:
        act(*given, **more)  # type: ignore[operator]
    except (MlflowException, RestException) as error:
        return str(error.error_code)
    return "nothing was refused"


def log(folder: Path, experiment: str, **more: object) -> object:
    script = folder / "model.py"
    script.write_text(CODE)
    mlflow.set_experiment(experiment)
    with mlflow.start_run() as run:
        mlflow.log_metric("accuracy", 0.875)
        mlflow.log_param("depth", 3)
        seen.setdefault("run", run.info.run_id)
        return mlflow.pyfunc.log_model(
            name="doubler",
            python_model=str(script),
            pip_requirements=[],
            registered_model_name="doubler",
            **more,
        )


def registers(folder: Path, registry: str) -> None:
    copied = log(folder, "proxied")
    seen["copied"] = copied.registered_model_version  # type: ignore[attr-defined]
    here = f"{registry}/api/2.0/mlflow-artifacts/artifacts/inbox/direct"
    mlflow.create_experiment("direct", artifact_location=here)
    left = log(folder, "direct")
    seen["left"] = left.registered_model_version  # type: ignore[attr-defined]


def looks(client: MlflowClient) -> None:
    client.set_registered_model_alias("doubler", "champion", "2")
    client.set_registered_model_tag("doubler", "team", "ml")
    client.set_model_version_tag("doubler", "1", "checked", "yes")
    client.delete_model_version_tag("doubler", "1", "checked")
    client.update_registered_model("doubler", description="Doubles")
    client.update_model_version("doubler", "2", description="The second")
    version = client.get_model_version_by_alias("doubler", "champion")
    seen["champion"] = [version.version, version.status, version.current_stage, version.description]
    model = client.get_registered_model("doubler")
    seen["model"] = [model.description, model.tags, model.aliases, [v.version for v in model.latest_versions]]
    found = client.search_registered_models("name LIKE 'doub%' AND tags.team = 'ml'")
    seen["search"] = [model.name for model in found]
    page = client.search_model_versions("name = 'doubler'", max_results=1, order_by=["version_number ASC"])
    rest = client.search_model_versions(
        "name = 'doubler'", max_results=1, order_by=["version_number ASC"], page_token=page.token
    )
    seen["pages"] = [version.version for version in (*page, *rest)]
    seen["latest"] = [version.version for version in client.get_latest_versions("doubler")]
    seen["run of 1"] = client.get_model_version("doubler", "1").run_id
    seen["refusals"] = [
        refusal(client.create_registered_model, "doubler"),
        refusal(client.create_registered_model, "Not Fit"),
        refusal(client.get_registered_model, "none"),
        refusal(client.get_model_version_by_alias, "doubler", "none"),
        refusal(client.transition_model_version_stage, "doubler", "1", "Production"),
        refusal(client.rename_registered_model, "doubler", "tripler"),
        refusal(client.create_model_version, "doubler", "/etc"),
    ]


def loads(folder: Path) -> None:
    path = Path(mlflow.artifacts.download_artifacts("models:/doubler/1", dst_path=str(folder / "one")))
    seen["files"] = sorted(str(file.relative_to(path)) for file in path.rglob("*") if file.is_file())
    for uri in ("models:/doubler@champion", "models:/doubler/1", "models:/doubler/latest"):
        seen[uri] = mlflow.pyfunc.load_model(uri).predict([1, 2])


def moves_on(client: MlflowClient) -> None:
    copy = client.copy_model_version("models:/doubler@champion", "tripler")
    seen["copy"] = [copy.name, copy.version, copy.status]
    client.delete_registered_model_alias("doubler", "champion")
    client.delete_model_version("doubler", "2")
    client.delete_registered_model("tripler")
    seen["left over"] = [
        f"{version.name}/{version.version}"
        for model in client.search_registered_models()
        for version in client.search_model_versions(f"name = '{model.name}'")
    ]


def main(tracking: str, registry: str) -> None:
    mlflow.set_tracking_uri(tracking)
    mlflow.set_registry_uri(registry)
    client = MlflowClient()
    with tempfile.TemporaryDirectory() as name:
        registers(Path(name), registry)
        looks(client)
        loads(Path(name))
        moves_on(client)
    print(json.dumps(seen))


if __name__ == "__main__":
    main(*sys.argv[1:])
