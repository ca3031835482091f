"""MLflow's registry API over HTTP: `/api/2.0/mlflow/…`, as its clients of version 3 call it.

Not in our description: MLflow documents it.
"""

from typing import Annotated

from fastapi import APIRouter, Depends, Query, Request

from registry.contract.mlflow import MlflowVersion
from registry.contract.tokens import Role
from registry.contract.versions import Version
from registry.edge.roles import READERS
from registry.edge.route import EdgeRoute
from registry.edge.unit import UnitOfWork, requires
from registry.mlflow import models, names, versions
from registry.mlflow.errors import MlflowError, MlflowRoute
from registry.mlflow.wire import (
    AliasNamed,
    AliasSetting,
    LatestVersions,
    ModelAnswer,
    ModelCreation,
    ModelNamed,
    ModelRename,
    ModelsAnswer,
    ModelTag,
    ModelUpdate,
    Nothing,
    StageTransition,
    Tag,
    UriAnswer,
    VersionAnswer,
    VersionCreation,
    VersionNamed,
    VersionsAnswer,
    VersionTag,
    VersionUpdate,
)

router = APIRouter(
    prefix="/api/2.0/mlflow",
    tags=["mlflow"],
    route_class=MlflowRoute,
    include_in_schema=False,
)

# Our own: by it the command line brings versions over.
own_router = APIRouter(prefix="/v1/mlflow", tags=["mlflow"], route_class=EdgeRoute)

_READ = requires(*READERS)
_WRITE = requires(Role.PUBLISHER)
_NAME = requires(Role.PUBLISHER, Role.RELEASER)

Filter = Annotated[str | None, Query()]
Results = Annotated[int | None, Query()]
Orders = Annotated[list[str], Query(max_length=8)]
PageToken = Annotated[str | None, Query(max_length=4096)]
EVERY_METHOD = ["GET", "POST", "PUT", "PATCH", "DELETE"]


def _base_url(request: Request) -> str:
    """Of this registry, as the client reached it."""
    return str(request.base_url).rstrip("/")


BaseUrl = Annotated[str, Depends(_base_url)]


@own_router.post("/versions", status_code=201, dependencies=[_WRITE])
async def bring(body: MlflowVersion, unit: UnitOfWork) -> Version:
    """A version of an MLflow tracking server, of files that are uploaded already; sealed at once."""
    return await versions.bring(unit, body)


@router.post("/registered-models/create", dependencies=[_WRITE], response_model_exclude_none=True)
async def create_model(body: ModelCreation, unit: UnitOfWork, base_url: BaseUrl) -> ModelAnswer:
    return ModelAnswer(registered_model=await models.create(unit, body, base_url))


@router.get("/registered-models/get", dependencies=[_READ], response_model_exclude_none=True)
async def get_model(name: str, unit: UnitOfWork, base_url: BaseUrl) -> ModelAnswer:
    return ModelAnswer(registered_model=await models.get(unit, name, base_url))


@router.get("/registered-models/search", dependencies=[_READ], response_model_exclude_none=True)
async def search_models(
    unit: UnitOfWork,
    base_url: BaseUrl,
    filter: Filter = None,
    max_results: Results = None,
    order_by: Orders = [],  # noqa: B006
    page_token: PageToken = None,
) -> ModelsAnswer:
    return await models.search(unit, filter, order_by, page_token, max_results, base_url)


@router.patch("/registered-models/update", dependencies=[_WRITE], response_model_exclude_none=True)
async def update_model(body: ModelUpdate, unit: UnitOfWork, base_url: BaseUrl) -> ModelAnswer:
    return ModelAnswer(registered_model=await models.update(unit, body.name, body.description, base_url))


@router.post("/registered-models/rename", dependencies=[_WRITE])
async def rename_model(body: ModelRename) -> Nothing:
    models.refuse_rename(body.name)
    return Nothing()


@router.delete("/registered-models/delete", dependencies=[_WRITE])
async def delete_model(body: ModelNamed, unit: UnitOfWork) -> Nothing:
    await models.delete(unit, body.name)
    return Nothing()


@router.post("/registered-models/get-latest-versions", dependencies=[_READ], response_model_exclude_none=True)
async def latest_versions(body: LatestVersions, unit: UnitOfWork, base_url: BaseUrl) -> VersionsAnswer:
    return VersionsAnswer(model_versions=await models.latest(unit, body.name, body.stages, base_url))


@router.get("/registered-models/get-latest-versions", dependencies=[_READ], response_model_exclude_none=True)
async def latest_versions_of_old_clients(
    name: str,
    unit: UnitOfWork,
    base_url: BaseUrl,
    stages: Annotated[list[str], Query(max_length=8)] = [],  # noqa: B006
) -> VersionsAnswer:
    return VersionsAnswer(model_versions=await models.latest(unit, name, tuple(stages), base_url))


@router.post("/registered-models/set-tag", dependencies=[_WRITE])
async def set_model_tag(body: ModelTag, unit: UnitOfWork) -> Nothing:
    await models.set_tag(unit, body.name, Tag(key=body.key, value=body.value))
    return Nothing()


@router.delete("/registered-models/delete-tag", dependencies=[_WRITE])
async def delete_model_tag(body: ModelTag, unit: UnitOfWork) -> Nothing:
    await models.delete_tag(unit, body.name, body.key)
    return Nothing()


@router.post("/registered-models/alias", dependencies=[_NAME])
async def set_alias(body: AliasSetting, unit: UnitOfWork) -> Nothing:
    await models.set_alias(unit, body.name, body.alias, names.version_number(body.version))
    return Nothing()


@router.delete("/registered-models/alias", dependencies=[_NAME])
async def delete_alias(body: AliasNamed, unit: UnitOfWork) -> Nothing:
    await models.delete_alias(unit, body.name, body.alias)
    return Nothing()


@router.get("/registered-models/alias", dependencies=[_READ], response_model_exclude_none=True)
async def version_by_alias(name: str, alias: str, unit: UnitOfWork, base_url: BaseUrl) -> VersionAnswer:
    return VersionAnswer(model_version=await models.by_alias(unit, name, alias, base_url))


@router.post("/model-versions/create", dependencies=[_WRITE], response_model_exclude_none=True)
async def create_version(body: VersionCreation, unit: UnitOfWork, base_url: BaseUrl) -> VersionAnswer:
    return VersionAnswer(model_version=await versions.create(unit, body, base_url))


@router.get("/model-versions/get", dependencies=[_READ], response_model_exclude_none=True)
async def get_version(name: str, version: str, unit: UnitOfWork, base_url: BaseUrl) -> VersionAnswer:
    number = names.version_number(version)
    return VersionAnswer(model_version=await versions.get(unit, name, number, base_url))


@router.get("/model-versions/search", dependencies=[_READ], response_model_exclude_none=True)
async def search_versions(
    unit: UnitOfWork,
    base_url: BaseUrl,
    filter: Filter = None,
    max_results: Results = None,
    order_by: Orders = [],  # noqa: B006
    page_token: PageToken = None,
) -> VersionsAnswer:
    limit = models.results(max_results, versions.DEFAULT_RESULTS, versions.MOST_RESULTS)
    return await versions.search(unit, filter, order_by, page_token, limit, base_url)


@router.patch("/model-versions/update", dependencies=[_WRITE], response_model_exclude_none=True)
async def update_version(body: VersionUpdate, unit: UnitOfWork, base_url: BaseUrl) -> VersionAnswer:
    number = names.version_number(body.version)
    made = await versions.update(unit, body.name, number, body.description, base_url)
    return VersionAnswer(model_version=made)


@router.post("/model-versions/transition-stage", dependencies=[_WRITE])
async def transition_stage(body: StageTransition) -> Nothing:
    versions.refuse_transition(body.name, body.stage)
    return Nothing()


@router.delete("/model-versions/delete", dependencies=[_WRITE])
async def delete_version(body: VersionNamed, unit: UnitOfWork) -> Nothing:
    await models.delete_version(unit, body.name, names.version_number(body.version))
    return Nothing()


@router.get("/model-versions/get-download-uri", dependencies=[_READ])
async def download_uri(name: str, version: str, unit: UnitOfWork, base_url: BaseUrl) -> UriAnswer:
    number = names.version_number(version)
    return UriAnswer(artifact_uri=await versions.download_uri(unit, name, number, base_url))


@router.post("/model-versions/set-tag", dependencies=[_WRITE])
async def set_version_tag(body: VersionTag, unit: UnitOfWork) -> Nothing:
    number = names.version_number(body.version)
    await versions.set_tag(unit, body.name, number, Tag(key=body.key, value=body.value))
    return Nothing()


@router.delete("/model-versions/delete-tag", dependencies=[_WRITE])
async def delete_version_tag(body: VersionTag, unit: UnitOfWork) -> Nothing:
    await versions.delete_tag(unit, body.name, names.version_number(body.version), body.key)
    return Nothing()


@router.api_route("/{path:path}", methods=EVERY_METHOD, dependencies=[_READ])
async def not_served(path: str, request: Request) -> Nothing:
    """Experiments, runs, traces: those are a tracking server's."""
    raise MlflowError(
        "ENDPOINT_NOT_FOUND",
        404,
        f"{request.method} {request.url.path} is not served here. This is a model registry: set it as the "
        "registry URI (mlflow.set_registry_uri), and leave the tracking URI at your tracking server.",
    )
