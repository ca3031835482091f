"""An MLflow server to compare with: its own virtual environment, the same PostgreSQL and object store."""

import socket
import subprocess
from pathlib import Path

import psycopg
from psycopg import sql

from slipway.children import ChildSpec
from slipway.stack import StackAddresses
from tests import environments

DATABASE = "mlflow"


def python() -> str:
    """The interpreter of MLflow's environment, which is made where it is missing or of other versions."""
    return str(environments.environment("bench-mlflow"))


def database_url(addresses: StackAddresses) -> str:
    return f"{addresses.database_url.rpartition('/')[0]}/{DATABASE}"


def _store(addresses: StackAddresses) -> str:
    """As MLflow wants it, with the driver that it documents."""
    return database_url(addresses).replace("postgresql://", "postgresql+psycopg2://", 1)


def create_database(addresses: StackAddresses, home: Path) -> None:
    """With its tables: at its first start the server would make them, for longer than a launcher waits."""
    with psycopg.connect(addresses.database_url, autocommit=True) as connection:
        connection.execute(sql.SQL("CREATE DATABASE {}").format(sql.Identifier(DATABASE)))
    make = "import sys; from mlflow.store.tracking.sqlalchemy_store import SqlAlchemyStore as Store; "
    subprocess.run([python(), "-c", make + "Store(*sys.argv[1:])", _store(addresses), home], check=True)


def environment(addresses: StackAddresses, port: int) -> dict[str, str]:
    """For the server and its clients."""
    return {
        "MLFLOW_TRACKING_URI": f"http://127.0.0.1:{port}",
        "MLFLOW_S3_ENDPOINT_URL": addresses.s3_endpoint_url,
        "AWS_ACCESS_KEY_ID": addresses.s3_access_key,
        "AWS_SECRET_ACCESS_KEY": addresses.s3_secret_key,
        "AWS_DEFAULT_REGION": "us-east-1",
        "MLFLOW_DISABLE_TELEMETRY": "true",
        "MLFLOW_SERVER_ENABLE_JOB_EXECUTION": "false",
        "GIT_PYTHON_REFRESH": "quiet",
    }


def child(addresses: StackAddresses, port: int) -> ChildSpec:
    """One server process, artifacts through it to the same object store that we use."""
    return ChildSpec(
        "mlflow",
        (
            *(python(), "-m", "mlflow", "server", "--workers", "1"),
            *("--host", "127.0.0.1", "--port", str(port)),
            *("--backend-store-uri", _store(addresses)),
            *("--artifacts-destination", f"s3://{addresses.bucket}/mlflow"),
        ),
        environment(addresses, port),
        ready_url=f"http://127.0.0.1:{port}/health",
    )


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


def fill(addresses: StackAddresses, versions: int, models: int) -> None:
    """As many models and versions, with as many tags, as `bench.filled` makes for us."""
    with psycopg.connect(database_url(addresses), autocommit=True) as connection:
        connection.execute(
            """INSERT INTO registered_models (name, creation_time, last_updated_time, description)
               SELECT 'm-' || lpad(i::text, 4, '0'), 1767225600000, 1767225600000, 'about ' || i
               FROM generate_series(0, %s - 1) i""",
            (models,),
        )
        connection.execute(
            """INSERT INTO model_versions (name, version, creation_time, last_updated_time, description,
                   current_stage, source, run_id, status, storage_location)
               SELECT 'm-' || lpad((i %% %s)::text, 4, '0'), 1 + i / %s, 1767225600000 + i * 1000,
                   1767225600000 + i * 1000, '', 'None', 'mlflow-artifacts:/m/' || i, md5(i::text), 'READY',
                   'mlflow-artifacts:/m/' || i
               FROM generate_series(0, %s - 1) i""",
            (models, models, versions),
        )
        connection.execute(
            """INSERT INTO model_version_tags (name, version, key, value)
               SELECT 'm-' || lpad((i %% %s)::text, 4, '0'), 1 + i / %s, t.key,
                   CASE WHEN t.key = 'n' THEN i::text WHEN i %% 100 = 7 THEN 'nlp' ELSE 'other' END
               FROM generate_series(0, %s - 1) i, (VALUES ('n'), ('team')) AS t (key)""",
            (models, models, versions),
        )
        connection.execute("VACUUM ANALYZE")
