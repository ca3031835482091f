"""Models and aliases over HTTP."""

from typing import Annotated

from fastapi import APIRouter, Query, Request, Response

from registry.contract.identity import Name
from registry.contract.pages import Page
from registry.contract.tokens import Role
from registry.contract.versions import Alias, AliasChange, AliasSet, Model, ModelCreate, ModelPatch
from registry.edge.etag import tag
from registry.edge.pages import Limit, PageToken, after
from registry.edge.roles import READERS
from registry.edge.route import EdgeRoute
from registry.edge.unit import UnitOfWork, match_revision, requires
from registry.models import aliases, searches, service
from registry.models.version_endpoints import Filter, OrderBy

router = APIRouter(prefix="/v1/models", tags=["models"], route_class=EdgeRoute)


@router.post("", status_code=201, dependencies=[requires(Role.PUBLISHER)])
async def create(body: ModelCreate, unit: UnitOfWork, response: Response) -> Model:
    made = await service.create(unit, body)
    tag(response, made.revision)
    response.headers["location"] = f"/v1/models/{made.name}"
    return made


@router.get("", dependencies=[requires(*READERS)])
async def listing(
    unit: UnitOfWork,
    page_token: PageToken = None,
    limit: Limit = 100,
    search: Annotated[str | None, Query(max_length=256)] = None,
    filter: Filter = None,
    order_by: OrderBy = None,
) -> Page[Model]:
    """By name. `search` looks into name, task, description and owner; `filter` compares fields, such as
    `owner=ann and tags.team='nlp'`. `order_by`: name or created_at, then asc or desc."""
    return await searches.models(unit, filter, search, order_by, page_token, limit)


@router.get("/{model}", dependencies=[requires(*READERS)])
async def get(model: Name, unit: UnitOfWork, response: Response) -> Model:
    found = await service.get(unit, model)
    tag(response, found.revision)
    return found


@router.patch("/{model}", dependencies=[requires(Role.PUBLISHER)])
async def patch(
    model: Name, body: ModelPatch, unit: UnitOfWork, request: Request, response: Response
) -> Model:
    """Needs If-Match with the ETag of the model: 428 without it, 412 when someone changed the model since."""
    unit.principal.require_model(model)
    row = await service.model_row(unit.session, model, lock=True)
    match_revision(request, row.revision, f"the model {model}")
    changed = await service.patch(unit, row, body)
    tag(response, changed.revision)
    return changed


@router.get("/{model}/aliases", dependencies=[requires(*READERS)])
async def list_aliases(model: Name, unit: UnitOfWork) -> Page[Alias]:
    return await aliases.listing(unit, model)


@router.get("/{model}/aliases/{alias}", dependencies=[requires(*READERS)])
async def get_alias(model: Name, alias: Name, unit: UnitOfWork) -> Alias:
    return await aliases.get(unit, model, alias)


@router.get("/{model}/aliases/{alias}/history", dependencies=[requires(*READERS)])
async def alias_history(
    model: Name, alias: Name, unit: UnitOfWork, page_token: PageToken = None, limit: Limit = 100
) -> Page[AliasChange]:
    """Who moved it when, from which version to which. Newest first."""
    return await aliases.history(unit, model, alias, after(page_token, int), limit)


@router.put("/{model}/aliases/{alias}", dependencies=[requires(Role.PUBLISHER, Role.RELEASER)])
async def put_alias(model: Name, alias: Name, body: AliasSet, unit: UnitOfWork) -> Alias:
    """An alias is a name for a version; moving it never moves traffic. With `expected_version` it is moved
    only if it names that version until now: 409 otherwise."""
    return await aliases.put(unit, model, alias, body)


@router.delete(
    "/{model}/aliases/{alias}", status_code=204, dependencies=[requires(Role.PUBLISHER, Role.RELEASER)]
)
async def delete_alias(
    model: Name,
    alias: Name,
    unit: UnitOfWork,
    expected_version: Annotated[int | None, Query(ge=1, lt=1_000_000_000)] = None,
) -> None:
    await aliases.delete(unit, model, alias, expected_version)
