"""Alembic's entry: the same driver as the registry, synchronously."""

from alembic import context
from sqlalchemy import Connection, create_engine

from registry.tables.all import metadata


def _run(connection: Connection) -> None:
    context.configure(connection=connection, target_metadata=metadata, compare_type=True)
    with context.begin_transaction():
        context.run_migrations()


given = context.config.attributes.get("connection")
if given is not None:
    _run(given)
else:
    engine = create_engine(context.config.attributes["database_url"])
    with engine.connect() as connection:
        _run(connection)
    engine.dispose()
