"""Rows → `contract.events` and `contract.webhooks`."""

from datetime import UTC, datetime

from registry.contract.events import EVENT, Event, EventId
from registry.contract.webhooks import Delivery, DeliveryState, Webhook, WebhookState
from registry.tables.events import DeliveryRow, EventRow, WebhookRow


def event(row: EventRow) -> Event:
    return EVENT.validate_python(
        {
            "id": str(EventId(row.timeline, row.number)),
            "type": row.type,
            "subject": row.subject,
            "deployment": row.deployment,
            "environment": row.environment,
            "model": row.model,
            "at": row.at,
            "actor": row.actor,
            "data": row.data,
        }
    )


def webhook(row: WebhookRow) -> Webhook:
    """Without its secrets."""
    until = row.old_secret_until
    return Webhook(
        id=row.id,
        url=row.url,
        types=tuple(row.types),
        deployments=tuple(row.deployments),
        environments=tuple(row.environments),
        models=tuple(row.models),
        description=row.description,
        state=WebhookState(row.state),
        state_reason=row.state_reason,
        revision=row.revision,
        created_at=row.created_at,
        created_by=row.created_by,
        old_secret_until=until if until and until > datetime.now(UTC) else None,
    )


def delivery(row: DeliveryRow, told: EventRow) -> Delivery:
    return Delivery(
        webhook=row.webhook_id,
        event=str(EventId(row.timeline, row.number)),
        type=told.type,
        deployment=told.deployment,
        state=DeliveryState(row.state),
        attempts=row.attempts,
        status=row.status,
        error=row.error,
        last_attempt_at=row.last_attempt_at,
    )
