"""Brings a database to the newest schema: `python -m registry.migrate`. Several processes may run it."""

import os
import sys
from pathlib import Path

from alembic import command
from alembic.config import Config
from sqlalchemy import create_engine, text

from registry.database import driver_url

SCRIPTS = Path(__file__).resolve().parent.parent / "migrations"
LOCK = 0x51195A7


def config(database_url: str) -> Config:
    settings = Config()
    settings.set_main_option("script_location", str(SCRIPTS))
    settings.attributes["database_url"] = driver_url(database_url)
    return settings


def upgrade(database_url: str, revision: str = "head") -> None:
    """Runs what is missing, under an advisory lock: a second process waits and finds nothing to do."""
    engine = create_engine(driver_url(database_url))
    try:
        with engine.connect() as connection:
            connection.execute(text("SELECT pg_advisory_lock(:lock)"), {"lock": LOCK})
            connection.commit()
            settings = config(database_url)
            settings.attributes["connection"] = connection
            command.upgrade(settings, revision)
            connection.execute(text("SELECT pg_advisory_unlock(:lock)"), {"lock": LOCK})
            connection.commit()
    finally:
        engine.dispose()


def main() -> None:
    url = os.environ.get("DATABASE_URL")
    if not url:
        sys.exit("DATABASE_URL is not set; set it, or use `slipway up`, which starts a database of its own")
    upgrade(url)


if __name__ == "__main__":
    main()
