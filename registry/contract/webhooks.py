"""Webhooks: where events are sent to, how they are signed, and what became of each delivery.

Signed in the way of Standard Webhooks: `webhook-signature: v1,<base64 of HMAC-SHA256>` over
`<webhook-id>.<webhook-timestamp>.<body>`; the key is the base64 part of the secret.
"""

import base64
import binascii
import hashlib
import hmac
from collections.abc import Mapping
from datetime import datetime
from enum import StrEnum

from pydantic import Field

from registry.contract.events import DeploymentPattern, EventIdText, TypePattern
from registry.contract.wire import Command, Wire, added

SECRET_PREFIX = "whsec_"  # noqa: S105 - the mark of a secret, not one
TOLERANCE_S = 300


class WebhookState(StrEnum):
    ACTIVE = "active"
    PAUSED = "paused"


class DeliveryState(StrEnum):
    PENDING = "pending"
    DELIVERED = "delivered"
    DEAD = "dead"


class WebhookCreate(Command):
    """No `types`: all of them; no `deployments`: all, and what concerns none."""

    url: str = Field(max_length=2048)
    types: tuple[TypePattern, ...] = Field(default=(), max_length=64)
    deployments: tuple[DeploymentPattern, ...] = Field(default=(), max_length=256)
    description: str = Field(default="", max_length=1024)


class WebhookPatch(Command):
    url: str | None = Field(default=None, max_length=2048)
    types: tuple[TypePattern, ...] | None = Field(default=None, max_length=64)
    deployments: tuple[DeploymentPattern, ...] | None = Field(default=None, max_length=256)
    description: str | None = Field(default=None, max_length=1024)


class WebhookReason(Command):
    reason: str = Field(default="", max_length=1024)


class WebhookRotate(Command):
    """`grace_s`: how long messages are signed with the old secret too."""

    grace_s: int = Field(default=86_400, ge=0, le=2_592_000)


class Webhook(Wire):
    """`environments` and `models`: the scope of who made it; it is told of nothing beyond (empty: all).
    `old_secret_until`: until then messages are signed with two secrets."""

    id: str
    url: str
    types: tuple[str, ...]
    deployments: tuple[str, ...]
    environments: tuple[str, ...]
    models: tuple[str, ...]
    description: str
    state: WebhookState
    state_reason: str
    revision: int
    created_at: datetime
    created_by: str
    old_secret_until: datetime | None = added(None)


class WebhookSecret(Wire):
    """`secret` is shown in this answer and never again."""

    webhook: Webhook
    secret: str


class Delivery(Wire):
    """`status`: the receiver's last answer; `error`: why the last attempt failed. A dead delivery was
    given up; it can be replayed, which sends it under the same id."""

    webhook: str
    event: EventIdText
    type: str
    deployment: str | None
    state: DeliveryState
    attempts: int
    status: int | None
    error: str
    last_attempt_at: datetime | None


class Replayed(Wire):
    """How many deliveries are pending again."""

    count: int


class Attempt(Wire):
    """`status` None: no answer came, `error` says why."""

    delivered: bool
    status: int | None
    error: str
    took_ms: float


def sign(secret: str, message_id: str, timestamp: int, body: bytes) -> str:
    """The value of `webhook-signature`. `timestamp` in seconds since 1970. Raises ValueError for a secret
    that is none."""
    try:
        key = base64.b64decode(secret.removeprefix(SECRET_PREFIX), validate=True)
    except binascii.Error as error:
        raise ValueError("the secret is not one: it begins with whsec_ and goes on in base64") from error
    digest = hmac.new(key, b".".join((message_id.encode(), str(timestamp).encode(), body)), hashlib.sha256)
    return f"v1,{base64.b64encode(digest.digest()).decode()}"


def verified(secret: str, headers: Mapping[str, str], body: bytes, now: float) -> bool:
    """For receivers: was this sent by who holds the secret, within five minutes of `now` (seconds since
    1970)? `headers` with lower-case names."""
    timestamp = headers.get("webhook-timestamp", "")
    if not timestamp.isascii() or not timestamp.isdigit() or abs(now - int(timestamp)) > TOLERANCE_S:
        return False
    wanted = sign(secret, headers.get("webhook-id", ""), int(timestamp), body)
    given = headers.get("webhook-signature", "").split(" ")
    return any(hmac.compare_digest(each.encode(), wanted.encode()) for each in given)
