"""One answer per key: a repeated write gets the first one's answer, a different one is refused.

An answer may hold presigned URLs, so it is kept sealed: with the caller's secret, which the database does
not know, and with nothing less. What the tables show anyway is kept as it is (see `models.quick_create`).
"""

import hashlib
from dataclasses import dataclass, field
from datetime import timedelta

import orjson
from fastapi import Request, Response
from sqlalchemy import bindparam, delete, func, insert, select, text
from sqlalchemy.ext.asyncio import AsyncSession

from registry.edge.principal import secret_of
from registry.edge.sealing import seal, unseal
from registry.errors import IdempotencyMismatch, Invalid
from registry.tables.access import IdempotencyRow

KEPT_HEADERS = ("content-type", "etag", "location")
MAX_KEY = 255
# What a process of an earlier version answers with: its caller then repeats, and gets to one of this version.
_TRY_AGAIN = 503
_TRY_AGAIN_HEADERS = {"retry-after": "1"}
# Made once: every write sends these three, and building them took longer than PostgreSQL took to answer.
_LOCK = text("SELECT pg_advisory_xact_lock(:lock)")
_FIND = select(IdempotencyRow).where(
    IdempotencyRow.principal == bindparam("principal"),
    IdempotencyRow.route == bindparam("route"),
    IdempotencyRow.key == bindparam("key"),
)
_KEEP = insert(IdempotencyRow.metadata.tables[IdempotencyRow.__tablename__])


@dataclass(frozen=True)
class Key:
    principal: str
    route: str
    key: str
    body_hash: bytes
    secret: str = field(repr=False)


async def key_of(request: Request, principal: str) -> Key | None:
    """None: the caller sent no key, so a repetition is a new request. Raises Invalid."""
    given = request.headers.get("idempotency-key")
    if given is None:
        return None
    if not 1 <= len(given) <= MAX_KEY:
        raise Invalid(
            f"the Idempotency-Key has {len(given)} characters", f"send 1 to {MAX_KEY}, for example a UUID"
        )
    body = await request.body()
    route = f"{request.method} {request.url.path}?{request.url.query}"
    secret = secret_of(request.headers.get("authorization"))
    return Key(principal, route, given, hashlib.sha256(body).digest(), secret)


async def replay(session: AsyncSession, key: Key) -> Response | None:
    """The kept answer. A second request with the same key waits here until the first one has committed."""
    lock = hashlib.sha256(f"{key.principal}\0{key.route}\0{key.key}".encode()).digest()
    await session.execute(_LOCK, {"lock": int.from_bytes(lock[:8], signed=True)})
    wanted = {"principal": key.principal, "route": key.route, "key": key.key}
    row = (await session.execute(_FIND, wanted)).scalar_one_or_none()
    if row is None:
        return None
    if row.body_hash != key.body_hash:
        raise IdempotencyMismatch(
            "this Idempotency-Key was used before with another body",
            "send a new key for a new request; repeat a key only with the very same body",
        )
    return _kept(row, key)


def _kept(row: IdempotencyRow, key: Key) -> Response:
    if row.sealed is None:
        return Response(row.body, row.status, {**row.headers, "idempotent-replay": "true"})
    opened = unseal(key.secret, row.sealed)
    if opened is None:
        raise IdempotencyMismatch(
            "the answer kept under this Idempotency-Key can't be read with this token",
            "look whether the first request did its work, and send a new key for another one",
        )
    told, _, body = opened.partition(b"\n")
    status, headers = orjson.loads(told)
    return Response(body, status, {**headers, "idempotent-replay": "true"})


async def keep(session: AsyncSession, key: Key, response: Response) -> None:
    """Written in the write's own transaction: either both happened or neither."""
    headers = {name: response.headers[name] for name in KEPT_HEADERS if name in response.headers}
    told = orjson.dumps([response.status_code, headers])
    await session.execute(
        _KEEP,
        {
            "principal": key.principal,
            "route": key.route,
            "key": key.key,
            "body_hash": key.body_hash,
            "status": _TRY_AGAIN,
            "headers": _TRY_AGAIN_HEADERS,
            "body": b"",
            "sealed": seal(key.secret, told + b"\n" + bytes(response.body)),
        },
    )


async def forget_old(session: AsyncSession, older_than_s: int) -> None:
    """Deletes answers that were kept for long enough."""
    await session.execute(
        delete(IdempotencyRow).where(IdempotencyRow.created_at < func.now() - timedelta(seconds=older_than_s))
    )
