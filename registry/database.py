"""The asynchronous engine and its sessions. One engine per process."""

from sqlalchemy.ext.asyncio import AsyncEngine, AsyncSession, async_sessionmaker, create_async_engine

from registry.outbox import SIGNAL, Signal
from registry.settings import Settings

# A connection that is not to be had is a 503 within 3 s.
POOL_TIMEOUT_S = 2.5
CONNECT_TIMEOUT_S = 3
# What is sent on a connection must be acknowledged within this time: a machine that vanished says nothing.
TCP_USER_TIMEOUT_MS = 3000
TCP = {
    "connect_timeout": CONNECT_TIMEOUT_S,
    "tcp_user_timeout": TCP_USER_TIMEOUT_MS,
    "keepalives_idle": 5,
    "keepalives_interval": 2,
    "keepalives_count": 2,
}


def driver_url(database_url: str) -> str:
    """`postgresql://…` as SQLAlchemy wants it for psycopg 3; the same URL serves sync and async."""
    scheme, _, rest = database_url.partition("://")
    if scheme.split("+")[0] not in ("postgresql", "postgres"):
        raise ValueError(f"DATABASE_URL must begin with postgresql://, not {scheme}://")
    return f"postgresql+psycopg://{rest}"


class Database:
    """`begin()` gives a session in a transaction that is committed at the end of the block.

    `told` is set whenever one has told something to the outbox.
    """

    def __init__(self, settings: Settings) -> None:
        self.engine: AsyncEngine = create_async_engine(
            driver_url(settings.database_url.get_secret_value()),
            pool_size=settings.database_pool,
            max_overflow=0,
            pool_timeout=POOL_TIMEOUT_S,
            pool_pre_ping=True,
            connect_args={**TCP, "prepare_threshold": None},
            # Values of a statement that failed would go to the log: hashes, bodies, whatever was sent.
            hide_parameters=True,
        )
        self.told = Signal()
        self.session = async_sessionmaker(
            self.engine, expire_on_commit=False, class_=AsyncSession, info={SIGNAL: self.told}
        )

    async def close(self) -> None:
        await self.engine.dispose()
