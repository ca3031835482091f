"""One answer per key: a repeated write gets the first one's answer, a different one is refused."""

import hashlib
from dataclasses import dataclass
from datetime import timedelta

from fastapi import Request, Response
from sqlalchemy import delete, func, select, text
from sqlalchemy.ext.asyncio import AsyncSession

from registry.errors import IdempotencyMismatch, Invalid
from registry.tables.access import IdempotencyRow

KEPT_HEADERS = ("content-type", "etag", "location")
MAX_KEY = 255


@dataclass(frozen=True)
class Key:
    principal: str
    route: str
    key: str
    body_hash: bytes


async def key_of(request: Request, principal: str) -> Key | None:
    """None: the caller sent no key, so a repetition is a new request."""
    given = request.headers.get("idempotency-key")
    if given is None:
        return None
    if not 1 <= len(given) <= MAX_KEY:
        raise Invalid(
            f"the Idempotency-Key has {len(given)} characters", f"send 1 to {MAX_KEY}, for example a UUID"
        )
    body = await request.body()
    route = f"{request.method} {request.url.path}?{request.url.query}"
    return Key(principal, route, given, hashlib.sha256(body).digest())


async def replay(session: AsyncSession, key: Key) -> Response | None:
    """The kept answer. A second request with the same key waits here until the first one has committed."""
    lock = hashlib.sha256(f"{key.principal}\0{key.route}\0{key.key}".encode()).digest()
    await session.execute(
        text("SELECT pg_advisory_xact_lock(:lock)"), {"lock": int.from_bytes(lock[:8], signed=True)}
    )
    row = (
        await session.execute(
            select(IdempotencyRow).where(
                IdempotencyRow.principal == key.principal,
                IdempotencyRow.route == key.route,
                IdempotencyRow.key == key.key,
            )
        )
    ).scalar_one_or_none()
    if row is None:
        return None
    if row.body_hash != key.body_hash:
        raise IdempotencyMismatch(
            "this Idempotency-Key was used before with another body",
            "send a new key for a new request; repeat a key only with the very same body",
        )
    return Response(row.body, row.status, {**row.headers, "idempotent-replay": "true"})


def keep(session: AsyncSession, key: Key, response: Response) -> None:
    """Written in the write's own transaction: either both happened or neither."""
    session.add(
        IdempotencyRow(
            principal=key.principal,
            route=key.route,
            key=key.key,
            body_hash=key.body_hash,
            status=response.status_code,
            headers={name: response.headers[name] for name in KEPT_HEADERS if name in response.headers},
            body=bytes(response.body),
        )
    )


async def forget_old(session: AsyncSession, older_than_s: int) -> None:
    """Deletes answers that were kept for long enough."""
    await session.execute(
        delete(IdempotencyRow).where(IdempotencyRow.created_at < func.now() - timedelta(seconds=older_than_s))
    )
