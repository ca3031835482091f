"""Use cases of webhooks. A token limited to environments or models sees and makes only webhooks within."""

import base64
import secrets
import time
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from datetime import timedelta

from fastapi import Request

from registry.contract.events import EVENT, EventId, TestFacts, WebhookTest
from registry.contract.pages import Page
from registry.contract.tokens import Role
from registry.contract.webhooks import (
    SECRET_PREFIX,
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
    WebhookState,
)
from registry.edge.pages import page
from registry.edge.principal import Principal
from registry.edge.unit import Unit, match_revision
from registry.errors import Conflict, NotFound
from registry.events import queries, queues, repository, represent
from registry.events.addresses import check_url
from registry.events.couriers import message_id
from registry.events.sender import Sender, Target
from registry.events.signing import in_force
from registry.tables.base import new_id
from registry.tables.events import WebhookRow

SECRET_BYTES = 32
MOST_REPLAYED = 10_000

OpenUnit = Callable[[], AbstractAsyncContextManager[Unit]]


def covers(principal: Principal, row: WebhookRow) -> bool:
    """A limited token must not learn through a webhook what it may not read."""
    return _within(row.environments, principal.environments) and _within(row.models, principal.models)


def _within(inner: list[str], outer: frozenset[str]) -> bool:
    return not outer or (bool(inner) and set(inner) <= outer)


async def create(unit: Unit, body: WebhookCreate) -> WebhookSecret:
    """The secret is in this answer and in no other. Raises Invalid for a URL that leads to no good place."""
    check_url(body.url, unit.resources.settings.webhook_networks)
    secret = _new_secret()
    row = WebhookRow(
        id=new_id("whk"),
        url=body.url,
        types=list(body.types),
        deployments=list(body.deployments),
        environments=sorted(unit.principal.environments),
        models=sorted(unit.principal.models),
        description=body.description,
        secret=secret,
        state=WebhookState.ACTIVE,
        state_reason="",
        created_by=unit.actor,
    )
    unit.session.add(row)
    await unit.session.flush()
    await unit.session.refresh(row)
    made = represent.webhook(row)
    unit.audit("webhook.create", f"webhook:{row.id}", None, made)
    return WebhookSecret(webhook=made, secret=secret)


def _new_secret() -> str:
    return SECRET_PREFIX + base64.b64encode(secrets.token_bytes(SECRET_BYTES)).decode()


async def rotate(unit: Unit, webhook_id: str, body: WebhookRotate) -> WebhookSecret:
    """A new secret, in this answer and in no other; for a while messages are signed with both."""
    row = await _row(unit, webhook_id, lock=True)
    before, secret = represent.webhook(row), _new_secret()
    row.secret, row.old_secret = secret, row.secret
    row.old_secret_until = await queries.now(unit.session) + timedelta(seconds=body.grace_s)
    await unit.session.flush()
    made = represent.webhook(row)
    unit.audit("webhook.rotate", f"webhook:{row.id}", before, made)
    return WebhookSecret(webhook=made, secret=secret)


async def listing(unit: Unit, after: str | None, limit: int) -> Page[Webhook]:
    """Oldest first; only those within the token's scope."""
    rows = await queries.webhooks(
        unit.session, after, limit, unit.principal.environments, unit.principal.models
    )
    return page(rows, limit, represent.webhook, lambda row: row.id)


async def get(unit: Unit, webhook_id: str) -> Webhook:
    return represent.webhook(await _row(unit, webhook_id))


async def patch(unit: Unit, request: Request, webhook_id: str, body: WebhookPatch) -> Webhook:
    """What is given is changed, for the deliveries to come; a new URL also serves what is pending."""
    row = await _row(unit, webhook_id, lock=True)
    match_revision(request, row.revision, f"webhook {row.id}")
    before = represent.webhook(row)
    if body.url is not None:
        check_url(body.url, unit.resources.settings.webhook_networks)
        row.url = body.url
    if body.types is not None:
        row.types = list(body.types)
    if body.deployments is not None:
        row.deployments = list(body.deployments)
    if body.description is not None:
        row.description = body.description
    await unit.session.flush()
    after = represent.webhook(row)
    unit.audit("webhook.patch", f"webhook:{row.id}", before, after)
    return after


async def delete(unit: Unit, request: Request, webhook_id: str) -> None:
    """With its deliveries, delivered or not."""
    row = await _row(unit, webhook_id, lock=True)
    match_revision(request, row.revision, f"webhook {row.id}")
    before = represent.webhook(row)
    await unit.session.delete(row)
    await unit.session.flush()
    unit.audit("webhook.delete", f"webhook:{row.id}", before, None)


async def pause(unit: Unit, webhook_id: str, body: WebhookReason) -> Webhook:
    """Nothing is sent; events are kept for it. Repeating it changes nothing."""
    return await _set_state(unit, webhook_id, WebhookState.PAUSED, body.reason)


async def resume(unit: Unit, webhook_id: str, body: WebhookReason) -> Webhook:
    """What is pending is sent from now on, with a whole day to try. Repeating it changes nothing."""
    return await _set_state(unit, webhook_id, WebhookState.ACTIVE, body.reason)


async def _set_state(unit: Unit, webhook_id: str, state: WebhookState, reason: str) -> Webhook:
    row = await _row(unit, webhook_id, lock=True)
    before = represent.webhook(row)
    if row.state == state:
        return before
    row.state, row.state_reason = state, reason
    await unit.session.flush()
    if state is WebhookState.ACTIVE:
        await queues.restart(unit.session, row.id)
        await repository.wake(unit.session)
    after = represent.webhook(row)
    action = "webhook.resume" if state is WebhookState.ACTIVE else "webhook.pause"
    unit.audit(action, f"webhook:{row.id}", before, after, reason)
    return after


async def deliveries(
    unit: Unit, webhook_id: str, state: DeliveryState | None, below: str | None, limit: int
) -> Page[Delivery]:
    """Newest first."""
    row = await _row(unit, webhook_id)
    found = await queries.deliveries(unit.session, row.id, state, below, limit)
    return page(
        found,
        limit,
        lambda pair: represent.delivery(*pair),
        lambda pair: str(EventId(pair[0].timeline, pair[0].number)),
    )


async def replay(unit: Unit, webhook_id: str, event_id: EventId | None) -> Replayed:
    """Dead deliveries, or one delivery that has ended, are pending again, under their own ids; they come
    after what was delivered meanwhile. Raises NotFound, Conflict."""
    row = await _row(unit, webhook_id, lock=True)
    if event_id is None:
        touched = await queries.revive_dead(unit.session, row.id, MOST_REPLAYED)
    else:
        found = await queries.delivery(unit.session, row.id, event_id)
        if found is None:
            raise NotFound(
                f"{row.id} has no delivery of event {event_id}",
                f"list them: slipway webhook deliveries {row.id}",
            )
        if found.state == DeliveryState.PENDING:
            raise Conflict(f"the delivery of {event_id} is still pending", "it is tried again by itself")
        touched = await queries.revive(unit.session, found)
    if touched:
        await queues.restart(unit.session, row.id, sorted(set(touched)))
        await repository.wake(unit.session)
        told = Replayed(count=len(touched))
        unit.audit("webhook.replay", f"webhook:{row.id}", None, told, str(event_id or "all dead ones"))
    return Replayed(count=len(touched))


async def test(open_unit: OpenUnit, sender: Sender, webhook_id: str) -> Attempt:
    """Sends one `webhook.test` now, past all queues, and tells what came of it. No transaction is open
    meanwhile."""
    async with open_unit() as unit:
        unit.principal.require(Role.RELEASER)
        row = await _row(unit, webhook_id)
        now = await queries.now(unit.session)
        target = Target(row.url, in_force(row, now))
        place = (await repository.bounds(unit.session))[1]
        event = WebhookTest(
            id=str(place),
            subject=f"webhook:{row.id}",
            at=now,
            actor=unit.actor,
            data=TestFacts(webhook=row.id),
        )
    message = message_id(webhook_id, f"test_{time.time_ns()}")
    outcome = await sender.send(target, message, EVENT.dump_json(event))
    return Attempt(
        delivered=outcome.delivered,
        status=outcome.status,
        error=outcome.error,
        took_ms=round(outcome.took_ms, 3),
    )


async def _row(unit: Unit, webhook_id: str, *, lock: bool = False) -> WebhookRow:
    """Raises NotFound, also for one beyond the token's scope."""
    row = await queries.webhook(unit.session, webhook_id, lock=lock)
    if row is None or not covers(unit.principal, row):
        raise NotFound(f"there is no webhook {webhook_id}", "list them: slipway webhook list")
    return row
