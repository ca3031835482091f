"""A registry with many versions: rows as the registry itself writes them, by one statement a table."""

from typing import Any

import psycopg

from registry.contract.pipeline import Classify, PipelineSpec
from registry.contract.versions import Dtype, Observable, Signature, TensorSpec, VersionContract

LABELS = ("cat", "dog", "fox")
CONTRACT = VersionContract(
    signature=Signature(
        inputs=(TensorSpec(name="x", dtype=Dtype.FP32, shape=("batch", 4)),),
        outputs=(TensorSpec(name="scores", dtype=Dtype.FP32, shape=("batch", len(LABELS))),),
    ),
    pipeline=PipelineSpec(post=(Classify(output="scores", labels=LABELS),)),
    observables=(
        Observable(name="label", kind="class", source="label", labels=LABELS),
        Observable(name="score", kind="score", source="score"),
    ),
)
MODELS = 1_000
VERSIONS = 100_000


def fill(
    connection: psycopg.Connection[Any],
    versions: int = VERSIONS,
    models: int = MODELS,
    contract: str = "{}",
) -> None:
    """Models m-0000 …, versions in turn over them, each 1 s younger than the one before.

    Of 100 versions in sequence: one has the tag team=nlp; the metric top1@valset is spread evenly
    over 0 … 1; the commit is its own, and so is the training run.
    """
    connection.execute(
        """INSERT INTO models (name, task, description, owner, tags, last_number, created_by)
           SELECT 'm-' || lpad(i::text, 4, '0'), 'classify', 'about ' || i, 'owner-' || i %% 50,
               jsonb_build_object('team', 'team-' || i %% 20), 0, 'filler'
           FROM generate_series(0, %s - 1) i""",
        (models,),
    )
    connection.execute(
        """INSERT INTO versions (id, model, number, framework, files, digests, digest, contract, lineage,
               description, tags, phase, phase_reason, created_by, created_at)
           SELECT 'ver_' || lpad(i::text, 32, '0'), 'm-' || lpad((i %% %s)::text, 4, '0'), 1 + i / %s, 'onnx',
               '[]', ARRAY['sha256-' || md5(i::text) || md5(i::text)], 'sha256-' || md5('v' || i) || md5(''),
               %s, jsonb_build_object('commit', 'c' || md5(i::text), 'training_run', 'run-' || i,
                   'training_data', jsonb_build_object('name', 'set-' || i %% 500, 'version', 1)),
               '', jsonb_build_object('n', i::text, 'team',
                   CASE WHEN i %% 100 = 7 THEN 'nlp' ELSE 'other' END),
               CASE WHEN i %% 1000 = 0 THEN 'archived' ELSE 'ready' END, '', 'filler',
               timestamptz '2026-01-01' + i * interval '1 s'
           FROM generate_series(0, %s - 1) i""",
        (models, models, contract, versions),
    )
    connection.execute(
        """INSERT INTO metrics (version_id, dataset, dataset_version, split, name, value, n,
               higher_is_better, measured_by, recorded_by)
           SELECT 'ver_' || lpad(i::text, 32, '0'), 'valset', 1, 'all', 'top1',
               (i::bigint * 2654435761 %% 1000003) / 1000003.0, 100, true, 'training', 'filler'
           FROM generate_series(0, %s - 1) i""",
        (versions,),
    )
    connection.execute("UPDATE models SET last_number = %s", (-(-versions // models),))
    # As the server itself does a minute later: no measurement should meet it.
    connection.execute("VACUUM ANALYZE models, versions, metrics")
