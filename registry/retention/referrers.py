"""Who refers to bytes. A new column that holds the digest of a blob belongs into `REFERRERS`."""

from collections.abc import Collection, Sequence

from sqlalchemy import ARRAY, Text, bindparam, text
from sqlalchemy.ext.asyncio import AsyncSession

from registry.edge.scopes import Referrer

# Of each (digest, sentence that names the referrer, the model that it belongs to), for digests in :digests.
# NULL is everybody's; what a file of MLflow's clients belongs to is not known, so no limited token sees it.
REFERRERS = {
    "versions": """
        SELECT digest, 'version ' || model || '@' || number AS referrer, model
        FROM (SELECT model, number, unnest(digests) AS digest FROM versions WHERE digests && :digests) AS v
    """,
    "datasets": """
        SELECT digest, 'data set ' || name || '@' || version, NULL
        FROM (SELECT name, version, unnest(digests) AS digest FROM datasets WHERE digests && :digests) AS d
    """,
    "engines": """
        SELECT engines.digest, 'engine ' || engines.id, versions.model
        FROM engines LEFT JOIN versions ON versions.id = engines.version_id
        WHERE engines.digest = ANY(:digests)
    """,
    # A rollback may go to every arm that served: what its engines were, even where a build was repeated.
    "arms": """
        SELECT engine.value, 'arm ' || arms.id, versions.model
        FROM arms LEFT JOIN versions ON versions.id = arms.version_id, jsonb_each_text(arms.engines) AS engine
        WHERE engine.value = ANY(:digests)
    """,
    "cached_steps": """
        SELECT output.value, 'cached step ' || cached_steps.key, NULL
        FROM cached_steps, jsonb_each_text(cached_steps.outputs) AS output
        WHERE output.value = ANY(:digests)
    """,
    "steps": """
        SELECT output.value, 'build ' || builds.id || ' is ' || builds.phase, versions.model
        FROM builds LEFT JOIN versions ON versions.id = builds.version_id
            JOIN steps ON steps.build_id = builds.id,
            jsonb_each_text(COALESCE(steps.report -> 'outputs', '{}')) AS output
        WHERE builds.phase IN ('queued', 'running') AND output.value = ANY(:digests)
    """,
    "mlflow_artifacts": """
        SELECT digest, 'MLflow artifact ' || path, '' FROM mlflow_artifacts WHERE digest = ANY(:digests)
    """,
    "uploads": """
        SELECT digest, 'upload ' || id || ' is ' || phase, NULL FROM uploads
        WHERE digest = ANY(:digests) AND phase IN ('open', 'verifying')
    """,
}
_ALL = " UNION ALL ".join(f"({statement})" for statement in REFERRERS.values())
_FOUND = f"FROM ({_ALL}) AS found WHERE digest = ANY(:digests)"
_DIGESTS = bindparam("digests", type_=ARRAY(Text))
_SET = text(f"SELECT DISTINCT digest {_FOUND}").bindparams(_DIGESTS)
_NAMED = text(f"SELECT DISTINCT referrer, model {_FOUND} ORDER BY 1 LIMIT :limit").bindparams(_DIGESTS)


async def referenced(session: AsyncSession, digests: Collection[str]) -> set[str]:
    """Those of `digests` that something refers to."""
    return set((await session.execute(_SET, {"digests": list(digests)})).scalars())


async def referrers(session: AsyncSession, digest: str, limit: int) -> Sequence[Referrer]:
    found = await session.execute(_NAMED, {"digests": [digest], "limit": limit})
    return [Referrer(row.referrer, row.model, None) for row in found]
