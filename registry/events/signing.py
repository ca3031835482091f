"""What a webhook's messages are signed with: its secret and, for a while after a change, the one before."""

from collections.abc import Iterable
from datetime import datetime

from registry.contract.webhooks import sign
from registry.tables.events import WebhookRow


def in_force(row: WebhookRow, now: datetime) -> tuple[str, ...]:
    """The secrets that sign at this moment, the present one first."""
    if row.old_secret is None or row.old_secret_until is None or row.old_secret_until <= now:
        return (row.secret,)
    return row.secret, row.old_secret


def signatures(secrets: Iterable[str], message_id: str, timestamp: int, body: bytes) -> str:
    """The value of `webhook-signature`: one for each secret. Raises ValueError."""
    return " ".join(sign(secret, message_id, timestamp, body) for secret in secrets)
