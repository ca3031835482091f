"""The asynchronous engine and its sessions. One engine per process."""

from sqlalchemy.ext.asyncio import AsyncEngine, AsyncSession, async_sessionmaker, create_async_engine

from registry.settings import Settings

POOL_TIMEOUT_S = 3


def driver_url(database_url: str) -> str:
    """`postgresql://…` as SQLAlchemy wants it for psycopg 3; the same URL serves sync and async."""
    scheme, _, rest = database_url.partition("://")
    if scheme.split("+")[0] not in ("postgresql", "postgres"):
        raise ValueError(f"DATABASE_URL must begin with postgresql://, not {scheme}://")
    return f"postgresql+psycopg://{rest}"


class Database:
    """`begin()` gives a session in a transaction that is committed at the end of the block."""

    def __init__(self, settings: Settings) -> None:
        self.engine: AsyncEngine = create_async_engine(
            driver_url(settings.database_url.get_secret_value()),
            pool_size=settings.database_pool,
            max_overflow=0,
            pool_timeout=POOL_TIMEOUT_S,
            pool_pre_ping=True,
            connect_args={"connect_timeout": POOL_TIMEOUT_S, "prepare_threshold": None},
        )
        self.session = async_sessionmaker(self.engine, expire_on_commit=False, class_=AsyncSession)

    async def close(self) -> None:
        await self.engine.dispose()
