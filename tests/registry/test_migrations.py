"""The schema: one head, up and down, and the same as the tables say."""

import sqlalchemy
from alembic import command
from alembic.autogenerate import compare_metadata
from alembic.migration import MigrationContext
from alembic.script import ScriptDirectory

from registry import migrate
from registry.database import driver_url
from registry.tables.all import metadata


def test_there_is_one_head() -> None:
    assert len(ScriptDirectory.from_config(migrate.config("postgresql://unused")).get_heads()) == 1


def test_up_gives_the_tables_and_down_gives_nothing(empty_database_url: str) -> None:
    migrate.upgrade(empty_database_url)
    migrate.upgrade(empty_database_url)
    engine = sqlalchemy.create_engine(driver_url(empty_database_url))
    with engine.connect() as connection:
        assert compare_metadata(MigrationContext.configure(connection), metadata) == []
    command.downgrade(migrate.config(empty_database_url), "base")
    assert sqlalchemy.inspect(engine).get_table_names() == ["alembic_version"]
    engine.dispose()
