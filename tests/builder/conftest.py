"""What most step tests begin with."""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from uuid import uuid4

import psycopg
import pytest
import redis
from psycopg import sql

from builder.data.samples import Sample, write_samples
from slipway.stack import Stack
from tests.builder import made
from tests.builder.rig import Rig, rigged


@pytest.fixture
def model(tmp_path: Path) -> Path:
    return made.conv_model(tmp_path / "model.onnx")


@pytest.fixture
def sample(tmp_path: Path) -> Path:
    rows = [
        Sample(f"row-{at}", {"image": row}, made.raw_image(row)) for at, row in enumerate(made.images(24))
    ]
    write_samples(tmp_path / "sample.npz", rows)
    return tmp_path / "sample.npz"


@pytest.fixture(scope="module")
def rig(
    stack: Stack,
    _admin: psycopg.Connection,
    _template: str,
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[Rig]:
    """A registry on a database of its own; workers are started by the tests and shared by a module."""
    database = f"test_{uuid4().hex[:16]}"
    _admin.execute(
        sql.SQL("CREATE DATABASE {} TEMPLATE {} STRATEGY file_copy").format(
            sql.Identifier(database), sql.Identifier(_template)
        )
    )
    with redis.Redis.from_url(stack.addresses.redis_url) as broker:
        broker.flushall()
    server = stack.addresses.database_url.rpartition("/")[0]
    addresses = replace(stack.addresses, database_url=f"{server}/{database}")
    with rigged(addresses, tmp_path_factory.mktemp("rig")) as made_rig:
        yield made_rig
    _admin.execute(sql.SQL("DROP DATABASE {} WITH (FORCE)").format(sql.Identifier(database)))
