"""Taking a backup, of a registry that goes on working.

The dump and the list of blobs are of one snapshot, so they agree; bytes are copied after it. That is enough:
a blob that the snapshot names is there until it is collected, and nothing referred to what is collected.
"""

import os
import shutil
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from datetime import UTC, datetime
from pathlib import Path

import psycopg

from registry.client.secrets import redacted
from slipway.backup import programs
from slipway.backup.bucket import THREADS, Bucket
from slipway.backup.errors import BackupError
from slipway.backup.manifest import BLOBS, Manifest, StoredBlob, sha256_of
from slipway.stack import StackAddresses

Tell = Callable[[str], None]

SPARE_BYTES = 64 << 20


def take(directory: Path, addresses: StackAddresses, tell: Tell = lambda _: None) -> Manifest:
    """A backup in `directory`; one that is there is brought up to date: bytes are not copied twice.

    Raises BackupError; an earlier backup in `directory` stays whole then.
    """
    blobs = directory / BLOBS
    blobs.mkdir(parents=True, exist_ok=True)
    directory.chmod(0o700)
    dump = f"registry-{datetime.now(UTC):%Y%m%dT%H%M%S%fZ}.dump"
    made = _dump(directory / dump, addresses)
    tell(f"dumped registry {made.registry_id}: {len(made.blobs)} blobs, {made.bytes / 1e6:,.1f} MB to keep")
    _require_room(blobs, made.blobs)
    with (
        closing(Bucket(addresses, os.environ.get("SLIPWAY_S3_REGION", "us-east-1"))) as bucket,
        ThreadPoolExecutor(THREADS) as pool,
    ):
        there = list(pool.map(lambda blob: bucket.fetch(blob, blobs), made.blobs))
    missing = [blob.digest for blob, is_there in zip(made.blobs, there, strict=True) if not is_there]
    _require_collected(addresses, missing)
    kept = tuple(blob for blob in made.blobs if blob.digest not in missing)
    made = made.model_copy(update={"blobs": kept, "gone": tuple(missing)})
    made.save(directory)
    _remove_others(directory, made)
    return made


def _dump(path: Path, addresses: StackAddresses) -> Manifest:
    try:
        with psycopg.connect(programs.for_libpq(addresses.database_url), connect_timeout=5) as connection:
            connection.isolation_level = psycopg.IsolationLevel.REPEATABLE_READ
            connection.read_only = True
            # This one waits while pg_dump works.
            connection.execute("SET idle_in_transaction_session_timeout = 0")
            known = _known(connection)
            (snapshot,) = connection.execute("SELECT pg_export_snapshot()").fetchone() or ("",)
            tools = programs.fitting(addresses.database_url, connection, os.environ)
            tools.run(
                "pg_dump",
                "--format=custom",
                "--no-owner",
                "--no-privileges",
                f"--snapshot={snapshot}",
                f"--file={path}",
            )
    except (psycopg.OperationalError, psycopg.ProgrammingError) as error:
        said = redacted(str(error), addresses.database_url)
        raise BackupError(f"the database does not answer: {said}. Check DATABASE_URL.") from error
    path.chmod(0o600)
    return known.model_copy(update={"dump": path.name, "dump_sha256": sha256_of(path)})


def _known(connection: psycopg.Connection) -> Manifest:
    try:
        row = connection.execute("SELECT id, timeline FROM registry").fetchone()
        revision = connection.execute("SELECT version_num FROM alembic_version").fetchone()
    except psycopg.errors.UndefinedTable:
        row = revision = None
    if row is None or revision is None:
        raise BackupError("there is no registry in this database. Check DATABASE_URL.")
    has_key = connection.execute(
        "SELECT 1 FROM information_schema.columns WHERE table_name = 'blobs' AND column_name = 'key'"
    ).fetchone()
    query = "SELECT digest, size, coalesce(key, digest) FROM blobs" if has_key else _PLAIN
    return Manifest(
        made_at=datetime.now(UTC),
        registry_id=row[0],
        timeline=row[1],
        revision=revision[0],
        server=str(connection.info.server_version),
        dump="",
        dump_sha256="",
        blobs=tuple(
            StoredBlob(digest=digest, size=size, key=key) for digest, size, key in connection.execute(query)
        ),
    )


# Of a schema from before objects had keys of their own.
_PLAIN = "SELECT digest, size, digest FROM blobs"


def _require_room(folder: Path, blobs: Sequence[StoredBlob]) -> None:
    needed = sum(blob.size for blob in blobs if not (folder / blob.digest).exists())
    free = shutil.disk_usage(folder).free
    if needed + SPARE_BYTES > free:
        raise BackupError(
            f"{needed / 1e6:,.0f} MB are to be copied and {folder} has {free / 1e6:,.0f} MB left. "
            "Name a directory on a larger disk."
        )


def _require_collected(addresses: StackAddresses, missing: Sequence[str]) -> None:
    """Raises BackupError for a blob that the registry still has and the store has not."""
    if not missing:
        return
    with psycopg.connect(programs.for_libpq(addresses.database_url), connect_timeout=5) as connection:
        lost = connection.execute(
            "SELECT digest FROM blobs WHERE digest = ANY(%s) LIMIT 3", [list(missing)]
        ).fetchall()
    if lost:
        names = ", ".join(digest for (digest,) in lost)
        raise BackupError(
            f"the object store lacks what the registry has: {names}. Bring the objects back from an earlier "
            "backup; this one would not be whole."
        )


def _remove_others(directory: Path, made: Manifest) -> None:
    """Dumps and bytes of earlier backups in this directory, which the manifest no longer names."""
    named = {blob.digest for blob in made.blobs}
    for path in (directory / BLOBS).iterdir():
        if path.name not in named:
            path.unlink()
    for path in directory.glob("registry-*.dump"):
        if path.name != made.dump:
            path.unlink()
