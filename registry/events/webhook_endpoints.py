"""Webhooks over HTTP."""

from typing import Annotated

from fastapi import APIRouter, Query, Request, Response

from registry.contract.events import parse_event_id
from registry.contract.pages import Page
from registry.contract.tokens import Role
from registry.contract.webhooks import (
    Attempt,
    Delivery,
    DeliveryState,
    Replayed,
    Webhook,
    WebhookCreate,
    WebhookPatch,
    WebhookReason,
    WebhookRotate,
    WebhookSecret,
)
from registry.edge.etag import tag
from registry.edge.pages import Limit, PageToken, after
from registry.edge.route import EdgeRoute, transaction
from registry.edge.unit import UnitOfWork, requires
from registry.errors import Invalid
from registry.events import webhooks
from registry.events.room import EventRoom

router = APIRouter(
    prefix="/v1/webhooks",
    tags=["webhooks"],
    route_class=EdgeRoute,
    dependencies=[requires(Role.RELEASER)],
)
# Opens its own transactions: the receiver may take its time. `webhooks.test` asks for the role.
long_router = APIRouter(prefix="/v1/webhooks", tags=["webhooks"])


@router.post("", status_code=201)
async def create(body: WebhookCreate, unit: UnitOfWork, response: Response) -> WebhookSecret:
    """The secret is shown once."""
    response.headers["cache-control"] = "no-store"
    return await webhooks.create(unit, body)


@router.get("")
async def listing(unit: UnitOfWork, page_token: PageToken = None, limit: Limit = 100) -> Page[Webhook]:
    return await webhooks.listing(unit, after(page_token, str), limit)


@router.get("/{webhook}")
async def get(webhook: str, unit: UnitOfWork, response: Response) -> Webhook:
    return _tagged(response, await webhooks.get(unit, webhook))


@router.patch("/{webhook}")
async def patch(
    webhook: str, body: WebhookPatch, unit: UnitOfWork, request: Request, response: Response
) -> Webhook:
    return _tagged(response, await webhooks.patch(unit, request, webhook, body))


@router.delete("/{webhook}", status_code=204)
async def delete(webhook: str, unit: UnitOfWork, request: Request) -> None:
    """With its deliveries."""
    await webhooks.delete(unit, request, webhook)


@router.post("/{webhook}/rotate", status_code=201)
async def rotate(
    webhook: str, unit: UnitOfWork, response: Response, body: WebhookRotate | None = None
) -> WebhookSecret:
    """Another secret, shown once. For `grace_s` messages carry a signature of each."""
    response.headers["cache-control"] = "no-store"
    return await webhooks.rotate(unit, webhook, body or WebhookRotate())


@router.post("/{webhook}/pause")
async def pause(webhook: str, body: WebhookReason, unit: UnitOfWork, response: Response) -> Webhook:
    """Events are kept for it, nothing is sent."""
    return _tagged(response, await webhooks.pause(unit, webhook, body))


@router.post("/{webhook}/resume")
async def resume(webhook: str, body: WebhookReason, unit: UnitOfWork, response: Response) -> Webhook:
    """Sends what was kept."""
    return _tagged(response, await webhooks.resume(unit, webhook, body))


@router.get("/{webhook}/deliveries")
async def deliveries(
    webhook: str,
    unit: UnitOfWork,
    state: Annotated[DeliveryState | None, Query(description="dead: the list of dead letters")] = None,
    page_token: PageToken = None,
    limit: Limit = 100,
) -> Page[Delivery]:
    """Newest first."""
    below = after(page_token, str)
    if below is not None:
        try:
            parse_event_id(below)
        except ValueError as error:
            raise Invalid("page_token was not made by this list", "send none to begin") from error
    return await webhooks.deliveries(unit, webhook, state, below, limit)


@router.post("/{webhook}/replay")
async def replay_dead(webhook: str, unit: UnitOfWork) -> Replayed:
    """All dead deliveries, up to 10 000, are pending again."""
    return await webhooks.replay(unit, webhook, None)


@router.post("/{webhook}/deliveries/{event}/replay")
async def replay(webhook: str, event: str, unit: UnitOfWork) -> Replayed:
    """One delivery that has ended is pending again, under the same id."""
    try:
        place = parse_event_id(event)
    except ValueError as error:
        raise Invalid(str(error), "GET …/deliveries lists the ids") from error
    return await webhooks.replay(unit, webhook, place)


@long_router.post("/{webhook}/test")
async def test(webhook: str, request: Request) -> Attempt:
    """Sends a `webhook.test` now and tells what the receiver answered. Each call sends one."""
    room: EventRoom = request.app.state.events
    return await webhooks.test(lambda: transaction(request), room.sender, webhook)


def _tagged(response: Response, made: Webhook) -> Webhook:
    tag(response, made.revision)
    return made
