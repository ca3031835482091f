"""Restoring a backup: an identical registry, on a higher timeline.

What happened after the backup is lost here and remembered elsewhere: nodes follow later generations, workers
hold later leases. The higher timeline makes every new route win over those of the lost time; raised fences
refuse writes of leases that were given in it.
"""

import os
import shutil
import subprocess
import tempfile
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, suppress
from pathlib import Path
from typing import IO

import psycopg
from psycopg import sql

from registry.client.secrets import redacted
from slipway.backup import programs
from slipway.backup.bucket import THREADS, Bucket, check
from slipway.backup.errors import BackupError
from slipway.backup.manifest import BLOBS, Manifest, sha256_of
from slipway.stack import StackAddresses

Tell = Callable[[str], None]

# 2024-01-01. Seconds since then grow by themselves: the same backup, restored twice, gives two timelines.
EPOCH_S = 1_704_067_200
# More than the leases that one task or release can have been given in the lost time.
FENCES = 1_000_000

_FINISH = sql.SQL(
    """
SET LOCAL search_path = public;
UPDATE registry SET timeline = greatest(timeline + 1, extract(epoch FROM now())::bigint - {epoch});
UPDATE tasks SET fence = fence + {fences}, lease_until = least(lease_until, now());
UPDATE releases
SET controller_fence = controller_fence + {fences}, controller = NULL, controller_until = NULL;
UPDATE enrolments SET expires_at = least(expires_at, now()) WHERE used_at IS NULL;
DELETE FROM blobs WHERE digest = ANY({gone});
INSERT INTO audit (actor, action, subject, before, after, reason, via)
SELECT 'slipway restore', 'registry.restore', 'registry:' || id,
    jsonb_build_object('timeline', {timeline}), jsonb_build_object('timeline', timeline), {reason}, 'CLI'
FROM registry;
"""
)


def restore(directory: Path, addresses: StackAddresses, tell: Tell = lambda _: None) -> Manifest:
    """Into an empty database; bytes go where they were. Its schema is that of the backup: migrate it next.

    Everything is checked before anything is written, and the database gets all of it in one transaction.
    Raises BackupError.
    """
    made = Manifest.load(directory)
    dump, blobs = directory / made.dump, directory / BLOBS
    if not dump.exists() or sha256_of(dump) != made.dump_sha256:
        raise BackupError(f"{dump} is missing or damaged. Use another backup.")
    with ThreadPoolExecutor(THREADS) as pool:
        list(pool.map(lambda blob: check(blob, blobs), made.blobs))
    tell(f"the backup of {made.made_at:%Y-%m-%d %H:%M:%S}Z is whole: {len(made.blobs)} blobs")
    tools = _require_empty(addresses)
    with closing(Bucket(addresses, os.environ.get("SLIPWAY_S3_REGION", "us-east-1"))) as bucket:
        bucket.make()
        with ThreadPoolExecutor(THREADS) as pool:
            list(pool.map(lambda blob: bucket.put(blob, blobs), made.blobs))
    tell("the bytes are in the object store")
    _load(tools, dump, _finish(made))
    return made


def _require_empty(addresses: StackAddresses) -> programs.Programs:
    try:
        with psycopg.connect(programs.for_libpq(addresses.database_url), connect_timeout=5) as connection:
            tables = connection.execute(
                "SELECT count(*) FROM pg_tables WHERE schemaname = 'public'"
            ).fetchone()
            if tables is not None and tables[0]:
                raise BackupError(
                    f"the database has {tables[0]} tables already: a restore goes into an empty one. Stop "
                    "every registry process, rename or drop that database, create an empty one, and repeat."
                )
            return programs.fitting(addresses.database_url, connection, os.environ)
    except (psycopg.OperationalError, psycopg.ProgrammingError) as error:
        said = redacted(str(error), addresses.database_url)
        raise BackupError(f"the database does not answer: {said}. Check DATABASE_URL.") from error


def _finish(made: Manifest) -> bytes:
    reason = f"from the backup of {made.made_at:%Y-%m-%dT%H:%M:%SZ}"
    statement = _FINISH.format(
        epoch=sql.Literal(EPOCH_S),
        fences=sql.Literal(FENCES),
        timeline=sql.Literal(made.timeline),
        gone=sql.SQL("ARRAY[{}]::text[]").format(sql.SQL(", ").join(map(sql.Literal, made.gone))),
        reason=sql.Literal(reason),
    )
    return statement.as_bytes(None)


def _load(tools: programs.Programs, dump: Path, finish: bytes) -> None:
    """The dump as a script, and the finish behind it, through one psql in one transaction."""
    read = tools.argv("pg_restore", "--no-owner", "--no-privileges", "--file=-", str(dump))
    write = tools.argv(
        "psql", "--no-psqlrc", "--quiet", "--single-transaction", "--set=ON_ERROR_STOP=1", "--file=-"
    )
    with (
        tempfile.TemporaryFile() as read_said,
        tempfile.TemporaryFile() as write_said,
        _started(read, tools, subprocess.DEVNULL, subprocess.PIPE, read_said) as reader,
        _started(write, tools, subprocess.PIPE, subprocess.DEVNULL, write_said) as writer,
    ):
        assert reader.stdout is not None
        assert writer.stdin is not None
        # A broken pipe: psql has ended already, and says why.
        with suppress(BrokenPipeError):
            shutil.copyfileobj(reader.stdout, writer.stdin)
        reader.stdout.close()
        whole = reader.wait() == 0
        if whole:
            with suppress(BrokenPipeError):
                writer.stdin.write(finish)
        else:
            # It would take the end of its input for a good end, and commit half a registry.
            writer.kill()
        with suppress(BrokenPipeError):
            writer.stdin.close()
        if writer.wait() != 0:
            for said in (read_said, write_said):
                said.seek(0)
            text = (write_said.read() + read_said.read()).decode(errors="replace").strip()
            raise BackupError(f"the database refused the dump, and is empty as before: {text}")


def _started(
    argv: list[str], tools: programs.Programs, stdin: int, stdout: int, said: IO[bytes]
) -> "subprocess.Popen[bytes]":
    return subprocess.Popen(argv, env=tools.environment(), stdin=stdin, stdout=stdout, stderr=said)
