"""The statements of the lineage graph: for many nodes of a kind at once, each by an index of `tables.models`
and `tables.builds`, whose expressions they repeat word for word.

Identities within a kind: a commit's and a run's text, `name@version` of a data set, the id of all else.
Steps take `ids` and give (source, target, relation); facts give (id, name, phase, at, model, environment),
the last two where a token's scope decides who may see it.
"""

from sqlalchemy import TextClause, text

from registry.contract.lineage import NodeKind

Steps = dict[NodeKind, tuple[tuple[NodeKind, TextClause], ...]]

DESCENDANTS: Steps = {
    NodeKind.COMMIT: (
        (
            NodeKind.VERSION,
            text("""
                SELECT lineage ->> 'commit', id, 'source' FROM versions
                WHERE (lineage ->> 'commit') = ANY(:ids)
            """),
        ),
    ),
    NodeKind.RUN: (
        (
            NodeKind.VERSION,
            text("""
                SELECT lineage ->> 'training_run', id, 'source' FROM versions
                WHERE (lineage ->> 'training_run') = ANY(:ids)
            """),
        ),
    ),
    NodeKind.DATASET: (
        (
            NodeKind.VERSION,
            text("""
                SELECT d.id, v.id, 'training' FROM unnest(CAST(:ids AS text[])) AS d (id)
                JOIN versions v ON (v.lineage #>> '{training_data,name}') = split_part(d.id, '@', 1)
                    AND (v.lineage #>> '{training_data,version}') = split_part(d.id, '@', 2)
            """),
        ),
        (
            NodeKind.BUILD,
            text("""
                SELECT d.id, b.id, 'calibration' FROM unnest(CAST(:ids AS text[])) AS d (id)
                JOIN builds b ON (b.recipe #>> '{calibration,name}') = split_part(d.id, '@', 1)
                    AND (b.recipe #>> '{calibration,version}') = split_part(d.id, '@', 2)
            """),
        ),
        (
            NodeKind.BUILD,
            text("""
                SELECT d.id, b.id, 'validation' FROM unnest(CAST(:ids AS text[])) AS d (id)
                JOIN builds b ON (b.recipe #>> '{validation,name}') = split_part(d.id, '@', 1)
                    AND (b.recipe #>> '{validation,version}') = split_part(d.id, '@', 2)
            """),
        ),
    ),
    NodeKind.VERSION: (
        (
            NodeKind.VERSION,
            text("""
                SELECT v.id, c.id, 'parent' FROM versions v
                JOIN versions c ON c.model = v.model AND (c.lineage ->> 'parent_version') = v.number::text
                WHERE v.id = ANY(:ids)
            """),
        ),
        (NodeKind.BUILD, text("SELECT version_id, id, 'built' FROM builds WHERE version_id = ANY(:ids)")),
    ),
    NodeKind.BUILD: (
        (NodeKind.ENGINE, text("SELECT build_id, id, 'made' FROM engines WHERE build_id = ANY(:ids)")),
    ),
    NodeKind.ENGINE: (
        (
            NodeKind.RELEASE,
            text("""
                SELECT e.id, r.id, 'released' FROM engines e
                JOIN arms a ON a.version_id = e.version_id AND a.precision = e.precision
                    AND a.engines ->> e.target = e.digest
                JOIN releases r ON r.arm_id = a.id
                WHERE e.id = ANY(:ids)
            """),
        ),
    ),
    NodeKind.RELEASE: (),
}

ANCESTORS: Steps = {
    NodeKind.COMMIT: (),
    NodeKind.RUN: (),
    NodeKind.DATASET: (),
    NodeKind.VERSION: (
        (
            NodeKind.COMMIT,
            text("""
                SELECT lineage ->> 'commit', id, 'source' FROM versions
                WHERE id = ANY(:ids) AND lineage ->> 'commit' <> ''
            """),
        ),
        (
            NodeKind.RUN,
            text("""
                SELECT lineage ->> 'training_run', id, 'source' FROM versions
                WHERE id = ANY(:ids) AND lineage ->> 'training_run' <> ''
            """),
        ),
        (
            NodeKind.DATASET,
            text("""
                SELECT (lineage #>> '{training_data,name}') || '@' || (lineage #>> '{training_data,version}'),
                    id, 'training'
                FROM versions
                WHERE id = ANY(:ids) AND (lineage #>> '{training_data,name}') IS NOT NULL
            """),
        ),
        (
            NodeKind.VERSION,
            text("""
                SELECT p.id, v.id, 'parent' FROM versions v
                JOIN versions p ON p.model = v.model AND p.number = (v.lineage ->> 'parent_version')::int
                WHERE v.id = ANY(:ids)
            """),
        ),
    ),
    NodeKind.BUILD: (
        (NodeKind.VERSION, text("SELECT version_id, id, 'built' FROM builds WHERE id = ANY(:ids)")),
        (
            NodeKind.DATASET,
            text("""
                SELECT (recipe #>> '{calibration,name}') || '@' || (recipe #>> '{calibration,version}'), id,
                    'calibration'
                FROM builds WHERE id = ANY(:ids) AND (recipe #>> '{calibration,name}') IS NOT NULL
            """),
        ),
        (
            NodeKind.DATASET,
            text("""
                SELECT (recipe #>> '{validation,name}') || '@' || (recipe #>> '{validation,version}'), id,
                    'validation'
                FROM builds WHERE id = ANY(:ids) AND (recipe #>> '{validation,name}') IS NOT NULL
            """),
        ),
    ),
    NodeKind.ENGINE: (
        (NodeKind.BUILD, text("SELECT build_id, id, 'made' FROM engines WHERE id = ANY(:ids)")),
    ),
    NodeKind.RELEASE: (
        (
            NodeKind.ENGINE,
            text("""
                SELECT e.id, r.id, 'released' FROM releases r
                JOIN arms a ON a.id = r.arm_id
                JOIN engines e ON e.version_id = a.version_id AND e.precision = a.precision
                    AND a.engines ->> e.target = e.digest
                WHERE r.id = ANY(:ids)
            """),
        ),
    ),
}

FACTS: dict[NodeKind, TextClause] = {
    NodeKind.DATASET: text("""
        SELECT d.id, d.id AS name, s.kind AS phase, s.created_at AS at, NULL AS model,
            NULL AS environment
        FROM unnest(CAST(:ids AS text[])) AS d (id)
        JOIN datasets s ON s.name = split_part(d.id, '@', 1) AND s.version::text = split_part(d.id, '@', 2)
    """),
    NodeKind.VERSION: text("""
        SELECT id, model || '@' || number AS name, phase, created_at AS at, model,
            NULL AS environment
        FROM versions WHERE id = ANY(:ids)
    """),
    NodeKind.BUILD: text("""
        SELECT b.id, 'of ' || v.model || '@' || v.number AS name, b.phase, b.created_at AS at, v.model,
            NULL AS environment
        FROM builds b JOIN versions v ON v.id = b.version_id WHERE b.id = ANY(:ids)
    """),
    NodeKind.ENGINE: text("""
        SELECT e.id, v.model || '@' || v.number || '@' || e.precision || ' for ' || e.target AS name,
            CASE WHEN e.releasable THEN 'releasable' ELSE 'refused' END AS phase, e.created_at AS at, v.model,
            NULL AS environment
        FROM engines e JOIN versions v ON v.id = e.version_id WHERE e.id = ANY(:ids)
    """),
    NodeKind.RELEASE: text("""
        SELECT r.id, r.deployment || '#' || r.number AS name, r.phase, r.created_at AS at, d.model,
            d.environment
        FROM releases r JOIN deployments d ON d.id = r.deployment_id WHERE r.id = ANY(:ids)
    """),
}

COMMITS_LIKE = text("""
    SELECT DISTINCT lineage ->> 'commit' AS id FROM versions
    WHERE (lineage ->> 'commit') LIKE :pattern ORDER BY 1 LIMIT :limit
""")
RUN = text("SELECT 1 FROM versions WHERE (lineage ->> 'training_run') = :run LIMIT 1")
VERSION = text("SELECT id FROM versions WHERE model = :model AND number = :number")
RELEASE = text("""
    SELECT r.id FROM releases r JOIN deployments d ON d.id = r.deployment_id
    WHERE d.environment = :environment AND d.name = :name AND r.number = :number
""")
