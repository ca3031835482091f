"""A version-create as one statement and one message: who asks and what they may, the key of the request, the
number, the version, its audit entry and the kept answer.

It does what the ordinary endpoint does where all is well, and nothing at all otherwise: what is wrong is for
the ordinary endpoint to say.
"""

import hashlib
from dataclasses import dataclass, field
from typing import Any

import psycopg

from registry.contract.tokens import Role
from registry.contract.versions import Version, VersionCreate, VersionStage
from registry.lifecycle.contracts import contract_faults
from registry.lifecycle.manifest import manifest_faults
from registry.models.bearer import bearer, bearer_values
from registry.models.versions import TOLD_LATER, content_digest
from registry.tables.base import new_id

ROLES = [Role.PUBLISHER.value, Role.ADMIN.value]

_BEARER = bearer("(models = '[]' OR models ? %(model)s)")
# The lock of `edge.idempotency`, so that one key is never answered here and there at the same time. Who
# waited for it does not see what came meanwhile; the primary key of the kept answers refuses the second one.
_KEYED = """, keyed AS MATERIALIZED (
    SELECT id, name, pg_advisory_xact_lock(
        ('x' || encode(substr(sha256(
            convert_to(id, 'UTF8') || '\\x00' || convert_to(%(route)s, 'UTF8') || '\\x00'
            || convert_to(%(key)s, 'UTF8')
        ), 1, 8), 'hex'))::bit(64)::bigint
    )
    FROM bearer
    WHERE NOT EXISTS (
        SELECT FROM idempotency_keys k
        WHERE k.principal = bearer.id AND k.route = %(route)s AND k.key = %(key)s
    )
)"""
# The row of the model is locked here, so creates of one model wait for one another from here to the commit.
_MADE = """, bumped AS (
    UPDATE models SET last_number = last_number + 1 FROM {allowed} AS allowed WHERE models.name = %(model)s
    RETURNING allowed.id AS principal, allowed.name AS actor, last_number AS number
), draft AS MATERIALIZED (
    SELECT CAST(%(draft)s AS jsonb) AS told
), made AS (
    INSERT INTO versions (
        id, model, number, framework, files, digests, digest, contract, lineage, description, tags,
        phase, phase_reason, created_by
    )
    SELECT %(id)s, %(model)s, number, told ->> 'framework', told -> 'files', %(digests)s, told ->> 'digest',
        told -> 'contract', told -> 'lineage', told ->> 'description', told -> 'tags',
        told ->> 'stage', '', actor
    FROM bumped, draft
    RETURNING number, created_at, phase_since
), answer AS MATERIALIZED (
    SELECT principal, actor, made.number, told || jsonb_build_object(
        'number', made.number, 'created_by', actor,
        'created_at', to_char(created_at AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.US"Z"'),
        'stage_since', to_char(phase_since AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.US"Z"')
    ) AS told
    FROM made, bumped, draft
), noted AS (
    INSERT INTO audit (actor, action, subject, after, reason, via, request_id)
    SELECT actor, 'version.create', 'version:' || %(model)s || '@' || number, told, '', %(via)s,
        %(request_id)s
    FROM answer
)"""
# Not sealed as other answers are: the tables show this one to who reads them anyway.
_KEPT = """, kept AS (
    INSERT INTO idempotency_keys (principal, route, key, body_hash, status, headers, body)
    SELECT principal, %(route)s, %(key)s, %(body_hash)s, 201, jsonb_build_object(
        'content-type', 'application/json', 'etag', '"1"',
        'location', '/v1/models/' || %(model)s || '/versions/' || number
    ), convert_to(told::text, 'UTF8')
    FROM answer
)"""
_TOLD = " SELECT actor, number, told::text FROM answer"

_WITH_KEY = _BEARER + _KEYED + _MADE.format(allowed="keyed") + _KEPT + _TOLD
_WITHOUT_KEY = _BEARER + _MADE.format(allowed="bearer") + _TOLD


@dataclass(frozen=True, slots=True)
class Asked:
    """A request to create a version. `key`: its Idempotency-Key, `route` what that belongs to."""

    model: str
    secret_hash: bytes
    route: str
    key: str | None
    via: str
    request_id: str | None
    body: bytes = field(repr=False)


@dataclass(frozen=True, slots=True)
class Made:
    """`answer` is the version's JSON."""

    actor: str
    number: int
    answer: bytes


def is_plain(body: VersionCreate, max_bytes: int) -> bool:
    """Whether nothing speaks against it that can be known without asking the database; what refers to other
    rows by its lineage is not plain."""
    paths = [entry.path for entry in body.files]
    return not (
        body.lineage.parent_version is not None
        or body.lineage.training_data is not None
        or sum(entry.size for entry in body.files) > max_bytes
        or manifest_faults(paths)
        or contract_faults(body.contract, paths)
    )


async def create(
    connection: psycopg.AsyncConnection[Any], asked: Asked, body: VersionCreate, *, prepare: bool
) -> Made | None:
    """None: it was not done, because it may not be, or was before. `connection` commits every statement.

    Raises psycopg.Error: UniqueViolation where the same key was answered at this very moment.
    """
    values = {
        **bearer_values(asked.secret_hash, ROLES),
        "model": asked.model,
        "id": new_id("ver"),
        "draft": _draft(asked.model, body),
        "digests": sorted({entry.digest for entry in body.files}),
        "via": asked.via,
        "request_id": asked.request_id,
    }
    if asked.key is None:
        done = await connection.execute(_WITHOUT_KEY, values, prepare=prepare)
    else:
        values |= {
            "route": asked.route,
            "key": asked.key,
            "body_hash": hashlib.sha256(asked.body).digest(),
        }
        done = await connection.execute(_WITH_KEY, values, prepare=prepare)
    row = await done.fetchone()
    return None if row is None else Made(row[0], row[1], row[2].encode())


def _draft(model: str, body: VersionCreate) -> str:
    """The version as it will be answered; the statement fills in what the database decides."""
    return Version(
        model=model,
        number=1,
        stage=VersionStage.DRAFT,
        stage_reason="",
        stage_since=TOLD_LATER,
        framework=body.framework,
        files=body.files,
        digest=content_digest(body),
        contract=body.contract,
        proven=body.contract.golden is not None,
        lineage=body.lineage,
        description=body.description,
        tags=body.tags,
        revision=1,
        created_at=TOLD_LATER,
        created_by="",
    ).model_dump_json()
