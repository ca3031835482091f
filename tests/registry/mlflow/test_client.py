"""The contract with MLflow: its real, unmodified client, of which only the registry URI is set, and its real
tracking server. And what is imported from one."""

import asyncio
import json
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from registry.client import ApiError, models, versions
from tests.registry.conftest import ADMIN, Registry
from tests.registry.mlflow.tracking import client_environment
from tests.registry.support import make_dataset, verifying

STORY = Path(__file__).with_name("client_story.py")
MAKER = Path(__file__).with_name("maker_story.py")
SLIPWAY = Path(sys.executable).with_name("slipway")
LIMIT_S = 170


async def tell(python: Path, *arguments: str) -> dict[str, Any]:
    """What the story's user saw."""
    _, out = await ran(str(python), str(STORY), *arguments)
    found: dict[str, Any] = json.loads(out.splitlines()[-1])
    return found


async def ran(
    *command: str, environ: Mapping[str, str] | None = None, codes: tuple[int, ...] = (0,)
) -> tuple[int, str]:
    """The exit code, which must be one of `codes`, and what was printed."""
    process = await asyncio.create_subprocess_exec(
        *command,
        env={**client_environment(ADMIN), **(environ or {})},
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    out, errors = await asyncio.wait_for(process.communicate(), LIMIT_S)
    assert process.returncode in codes, errors.decode()[-5000:]
    assert process.returncode is not None
    return process.returncode, out.decode()


@pytest.mark.timeout(400)
async def test_an_unmodified_client(registry: Registry, mlflow_python: Path, tracking: str) -> None:
    async with verifying(registry):
        seen = await tell(mlflow_python, tracking, registry.url)
    assert (seen["copied"], seen["left"]) == ("1", "2")
    assert seen["champion"] == ["2", "READY", "None", "The second"]
    assert seen["model"] == ["Doubles", {"team": "ml"}, {"champion": "2"}, ["2"]]
    assert seen["search"] == ["doubler"]
    assert seen["pages"] == ["1", "2"]
    assert seen["latest"] == ["2"]
    assert seen["run of 1"] == seen["run"]
    assert seen["refusals"] == [
        "RESOURCE_ALREADY_EXISTS",
        "INVALID_PARAMETER_VALUE",
        "RESOURCE_DOES_NOT_EXIST",
        "INVALID_PARAMETER_VALUE",
        "INVALID_PARAMETER_VALUE",
        "INVALID_PARAMETER_VALUE",
        "INVALID_PARAMETER_VALUE",
    ]
    assert {"MLmodel", "model.py", "registered_model_meta"} <= set(seen["files"])
    for uri in ("models:/doubler@champion", "models:/doubler/1", "models:/doubler/latest"):
        assert seen[uri] == [2, 4], uri
    assert seen["copy"] == ["tripler", "1", "READY"]
    assert seen["left over"] == ["doubler/1"]
    ours = await registry.client(versions.get("doubler", 1))
    assert (ours.stage, ours.framework, ours.lineage.training_run) == ("ready", "pyfunc", seen["run"])
    assert "not servable" in ours.stage_reason


@pytest.mark.timeout(400)
async def test_models_are_brought_over_once(registry: Registry, mlflow_python: Path, tracking: str) -> None:
    await ran(str(mlflow_python), str(MAKER), tracking)
    ref = (await make_dataset(registry, "valset")).ref

    async def imported(*more: str) -> tuple[int, list[tuple[str, str, str]]]:
        command = (str(SLIPWAY), "import", "mlflow", "--from", tracking, "--model", "Old Name", "-o", "json")
        environ = {"SLIPWAY_URL": registry.url, "SLIPWAY_TOKEN": ADMIN}
        async with verifying(registry):
            code, out = await ran(*command, *more, environ=environ, codes=(0, 3))
        items = json.loads(out)
        return code, [(item["target"], item["state"], "; ".join(item["notes"])) for item in items]

    code, (told,) = await imported()
    assert (code, told[1]) == (3, "skipped")
    assert "--rename 'Old Name=old-name'" in told[2]
    named = ("--rename", "Old Name=iris", "--metrics-on", "valset@1")
    code, planned = await imported(*named, "--dry-run")
    assert (code, [item[:2] for item in planned]) == (0, [("iris", "would import")] * 2)
    with pytest.raises(ApiError, match="there is no model iris"):
        await registry.client(models.get("iris"))

    code, done = await imported(*named)
    assert (code, [item[:2] for item in done]) == (
        0,
        [("iris@1", "imported"), ("iris@2", "imported"), ("iris@2", "alias set")],
    )
    assert "the tag 'long' is too long (300 characters)" in done[1][2]
    assert "not servable" in done[1][2]
    assert (await registry.client(models.get("iris"))).tags == {"team": "ml"}
    second = await registry.client(versions.get("iris", 2))
    assert (second.stage, second.tags, second.aliases) == ("ready", {"short": "y"}, ("champion",))
    assert "MLmodel" in [file.path for file in second.files]
    assert second.lineage.parameters["mlflow.origin"] == f"{tracking}/Old Name/2"
    assert second.lineage.parameters["param.depth"] == "4"
    assert second.lineage.parameters["metric.accuracy"] == "0.75"
    assert second.lineage.training_run
    (metric,) = (await registry.client(versions.metrics("iris", 2))).items
    assert (metric.name, metric.value, metric.dataset) == ("accuracy", 0.75, ref)

    code, again = await imported(*named)
    assert (code, [item[:2] for item in again]) == (
        0,
        [("iris@1", "here already"), ("iris@2", "here already")],
    )
