"""The audit trail over HTTP."""

from datetime import datetime
from typing import Annotated

from fastapi import APIRouter, Depends, Query, Request
from fastapi.responses import StreamingResponse

from registry.audit import export, service
from registry.audit.filters import Filter, wanted, zoned
from registry.contract.audit import AuditEntry, ExportForm, Serving
from registry.contract.identity import Environment
from registry.contract.pages import Page
from registry.edge.pages import Limit, PageToken, after
from registry.edge.roles import PEOPLE
from registry.edge.route import EdgeRoute, transaction
from registry.edge.unit import UnitOfWork, requires

router = APIRouter(prefix="/v1/audit", tags=["audit"], route_class=EdgeRoute)
# Not an `EdgeRoute`: the answer is longer than one transaction.
_streams = APIRouter(tags=["audit"])

Wanted = Annotated[Filter, Depends(wanted)]
MEDIA_TYPES = {ExportForm.CSV: "text/csv; charset=utf-8", ExportForm.JSONL: "application/x-ndjson"}


@router.get("", dependencies=[requires(*PEOPLE)])
async def listing(
    unit: UnitOfWork, filters: Wanted, page_token: PageToken = None, limit: Limit = 100
) -> Page[AuditEntry]:
    """Who changed what, from what to what, why, and through which door. Newest first."""
    return await service.listing(unit, after(page_token, int), limit, filters)


@router.get("/serving", dependencies=[requires(*PEOPLE)])
async def serving(
    unit: UnitOfWork,
    environment: Annotated[Environment, Query()],
    at: Annotated[datetime, Query(description="RFC 3339")],
    page_token: PageToken = None,
    limit: Limit = 100,
) -> Page[Serving]:
    """What every deployment of an environment served at a moment, and what its nodes had confirmed."""
    moment = zoned("at", at)
    assert moment is not None
    return await service.serving(unit, environment, moment, after(page_token, str), limit)


@_streams.get("/export", response_class=StreamingResponse)
async def exported(
    request: Request,
    filters: Wanted,
    form: Annotated[ExportForm, Query(alias="format")] = ExportForm.JSONL,
) -> StreamingResponse:
    """Every entry up to now, oldest first. In CSV an apostrophe precedes what a spreadsheet would run."""
    async with transaction(request) as unit:
        caller = unit.principal
        caller.require(*PEOPLE)
        upto = await service.newest(unit.session)
        database = unit.resources.database
    return StreamingResponse(
        export.lines(database, upto, form, filters, caller),
        headers={
            "content-disposition": f'attachment; filename="audit.{form}"',
            "cache-control": "no-store",
        },
        media_type=MEDIA_TYPES[form],
    )


router.include_router(_streams)
