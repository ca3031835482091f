"""Versions and their metrics over HTTP."""

from typing import Annotated

from fastapi import APIRouter, Path, Query, Response

from registry.contract.identity import Name
from registry.contract.pages import Page
from registry.contract.tokens import Role
from registry.contract.versions import Metric, MetricsAppend, StageChange, Version, VersionCreate
from registry.edge.etag import tag
from registry.edge.pages import Limit, PageToken, after
from registry.edge.roles import READERS
from registry.edge.route import EdgeRoute
from registry.edge.unit import UnitOfWork, requires
from registry.models import metrics, searches, versions

router = APIRouter(prefix="/v1/models/{model}/versions", tags=["versions"], route_class=EdgeRoute)

search_router = APIRouter(prefix="/v1/versions", tags=["versions"], route_class=EdgeRoute)

Filter = Annotated[
    str | None,
    Query(
        max_length=2048,
        description="Comparisons joined by `and`: name~'senti' and tags.team='nlp' and "
        "metrics.top1@valset>0.9 and stage=ready and deployment=prod/sentiment",
    ),
]
OrderBy = Annotated[str | None, Query(max_length=256, description="created_at desc")]
Number = Annotated[int, Path(ge=1, lt=1_000_000_000)]


@search_router.get("", dependencies=[requires(*READERS)], response_model=Page[Version])
async def search(
    unit: UnitOfWork,
    filter: Filter = None,
    order_by: OrderBy = None,
    page_token: PageToken = None,
    limit: Limit = 100,
) -> Response:
    """Versions of all models. `order_by`: created_at (newest first is the default), name, or
    metrics.NAME@DATASET, then asc or desc."""
    asked = searches.Asked.of(filter, order_by, page_token, limit)
    return Response(await searches.versions(unit, asked), media_type="application/json")


@router.post("", status_code=201, dependencies=[requires(Role.PUBLISHER)])
async def create(model: Name, body: VersionCreate, unit: UnitOfWork, response: Response) -> Version:
    """Reserves the next number. Upload the files by their digests, then seal."""
    made = await versions.create(unit, model, body)
    tag(response, made.revision)
    response.headers["location"] = f"/v1/models/{model}/versions/{made.number}"
    return made


@router.get("", dependencies=[requires(*READERS)])
async def listing(
    model: Name, unit: UnitOfWork, page_token: PageToken = None, limit: Limit = 100
) -> Page[Version]:
    """Newest first."""
    return await versions.listing(unit, model, after(page_token, int), limit)


@router.get("/{number}", dependencies=[requires(*READERS)])
async def get(model: Name, number: Number, unit: UnitOfWork, response: Response) -> Version:
    found = await versions.get(unit, model, number)
    tag(response, found.revision)
    return found


@router.post("/{number}/seal", dependencies=[requires(Role.PUBLISHER)])
async def seal(model: Name, number: Number, unit: UnitOfWork, response: Response) -> Version:
    """draft → verifying, → ready when every file is verified. After it nothing of the version changes."""
    made = await versions.seal(unit, model, number)
    tag(response, made.revision)
    return made


@router.post("/{number}/archive", dependencies=[requires(Role.PUBLISHER)])
async def archive(
    model: Name, number: Number, body: StageChange, unit: UnitOfWork, response: Response
) -> Version:
    """Out of use. 409 while a deployment or a release has an arm of it."""
    made = await versions.archive(unit, model, number, body)
    tag(response, made.revision)
    return made


@router.post("/{number}/restore", dependencies=[requires(Role.PUBLISHER)])
async def restore(
    model: Name, number: Number, body: StageChange, unit: UnitOfWork, response: Response
) -> Version:
    """Back into use, where it was archived. 409 names files that never arrived."""
    made = await versions.restore(unit, model, number, body)
    tag(response, made.revision)
    return made


@router.post("/{number}/quarantine", dependencies=[requires(Role.PUBLISHER, Role.RELEASER)])
async def quarantine(
    model: Name, number: Number, body: StageChange, unit: UnitOfWork, response: Response
) -> Version:
    """Can never be released again. Where it still serves, warnings says so: roll back there."""
    made = await versions.quarantine(unit, model, number, body)
    tag(response, made.revision)
    return made


@router.get("/{number}/metrics", dependencies=[requires(*READERS)])
async def list_metrics(model: Name, number: Number, unit: UnitOfWork) -> Page[Metric]:
    return await metrics.listing(unit, model, number)


@router.post("/{number}/metrics", status_code=201, dependencies=[requires(Role.PUBLISHER, Role.BUILDER)])
async def append_metrics(model: Name, number: Number, body: MetricsAppend, unit: UnitOfWork) -> Page[Metric]:
    """Append-only: an earlier number stays, the newest one counts."""
    return await metrics.append(unit, model, number, body)
