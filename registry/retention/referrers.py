"""Who refers to bytes. A new column that holds the digest of a blob belongs into `REFERRERS`."""

from collections.abc import Collection, Sequence

from sqlalchemy import ARRAY, Text, bindparam, text
from sqlalchemy.ext.asyncio import AsyncSession

# Of each (digest, sentence that names the referrer), for digests in :digests.
REFERRERS = {
    "versions": """
        SELECT digest, 'version ' || model || '@' || number AS referrer
        FROM (SELECT model, number, unnest(digests) AS digest FROM versions WHERE digests && :digests) AS v
    """,
    "datasets": """
        SELECT digest, 'data set ' || name || '@' || version
        FROM (SELECT name, version, unnest(digests) AS digest FROM datasets WHERE digests && :digests) AS d
    """,
    "engines": "SELECT digest, 'engine ' || id FROM engines WHERE digest = ANY(:digests)",
    # A rollback may go to every arm that served: what its engines were, even where a build was repeated.
    "arms": """
        SELECT engine.value, 'arm ' || arms.id
        FROM arms, jsonb_each_text(arms.engines) AS engine WHERE engine.value = ANY(:digests)
    """,
    "cached_steps": """
        SELECT output.value, 'cached step ' || cached_steps.key
        FROM cached_steps, jsonb_each_text(cached_steps.outputs) AS output
        WHERE output.value = ANY(:digests)
    """,
    "steps": """
        SELECT output.value, 'build ' || builds.id || ' is ' || builds.phase
        FROM builds JOIN steps ON steps.build_id = builds.id,
            jsonb_each_text(COALESCE(steps.report -> 'outputs', '{}')) AS output
        WHERE builds.phase IN ('queued', 'running') AND output.value = ANY(:digests)
    """,
    "mlflow_artifacts": """
        SELECT digest, 'MLflow artifact ' || path FROM mlflow_artifacts WHERE digest = ANY(:digests)
    """,
    "uploads": """
        SELECT digest, 'upload ' || id || ' is ' || phase FROM uploads
        WHERE digest = ANY(:digests) AND phase IN ('open', 'verifying')
    """,
}
_ALL = " UNION ALL ".join(f"({statement})" for statement in REFERRERS.values())
_FOUND = f"FROM ({_ALL}) AS found WHERE digest = ANY(:digests)"
_DIGESTS = bindparam("digests", type_=ARRAY(Text))
_SET = text(f"SELECT DISTINCT digest {_FOUND}").bindparams(_DIGESTS)
_NAMED = text(f"SELECT DISTINCT referrer {_FOUND} ORDER BY 1 LIMIT :limit").bindparams(_DIGESTS)


async def referenced(session: AsyncSession, digests: Collection[str]) -> set[str]:
    """Those of `digests` that something refers to."""
    return set((await session.execute(_SET, {"digests": list(digests)})).scalars())


async def referrers(session: AsyncSession, digest: str, limit: int) -> Sequence[str]:
    """Names of what refers to it."""
    return (await session.execute(_NAMED, {"digests": [digest], "limit": limit})).scalars().all()
