"""Who speaks on the raw node routes: tokens by their hash, kept for a few seconds, read many at a time."""

import asyncio
from dataclasses import dataclass
from time import monotonic

from registry.database import Database
from registry.edge.principal import Principal, find_tokens, hash_secret, principal_of, secret_of
from registry.errors import Unauthenticated
from registry.listen import Channel, Listener

KEPT_S = 5.0
MOST_KEPT = 20_000


@dataclass(frozen=True, slots=True)
class _Kept:
    found: Principal | Unauthenticated
    until: float


class TokenCache:
    """A revoked token is refused as soon as the notice of it arrives, an expired one (and a revoked one whose
    notice was lost) at the latest `KEPT_S` seconds after it was last read.

    A fleet whose tokens fall due together is one query, not a thousand.
    """

    def __init__(self, database: Database) -> None:
        self._database = database
        self._kept: dict[bytes, _Kept] = {}
        self._wanted: dict[bytes, asyncio.Future[Principal]] = {}
        self._reading: asyncio.Task[None] | None = None
        self._forgotten = 0

    def subscribe(self, listener: Listener) -> None:
        """Before the listener runs."""
        listener.subscribe(Channel.TOKENS, self.forget, lambda: None)

    def forget(self, token_id: str) -> None:
        """What is known of a token may be wrong from now on; also what is being read at this moment."""
        self._forgotten += 1
        self._kept = {
            each: kept
            for each, kept in self._kept.items()
            if not (isinstance(kept.found, Principal) and kept.found.token_id == token_id)
        }

    async def check(self, authorization: str | None) -> Principal:
        """Raises Unauthenticated, or the database's error where it had to be asked."""
        wanted = hash_secret(secret_of(authorization))
        kept = self._kept.get(wanted)
        if kept is not None and kept.until > monotonic():
            if isinstance(kept.found, Principal):
                return kept.found
            raise Unauthenticated(kept.found.detail, kept.found.hint)
        future = self._wanted.get(wanted)
        if future is None:
            future = self._wanted[wanted] = asyncio.get_running_loop().create_future()
        if self._reading is None or self._reading.done():
            self._reading = asyncio.create_task(self._read())
        return await asyncio.shield(future)

    async def _read(self) -> None:
        while self._wanted:
            wanted, self._wanted = self._wanted, {}
            forgotten = self._forgotten
            try:
                async with self._database.session() as session, session.begin():
                    tokens = await find_tokens(session, list(wanted))
            except Exception as error:
                for future in wanted.values():
                    _fail(future, error)
                continue
            for each, future in wanted.items():
                try:
                    found: Principal | Unauthenticated = principal_of(tokens.get(each))
                except Unauthenticated as refusal:
                    found = refusal
                if forgotten == self._forgotten:
                    self._keep(each, found)
                if isinstance(found, Principal):
                    if not future.done():
                        future.set_result(found)
                else:
                    _fail(future, found)

    def _keep(self, wanted: bytes, found: Principal | Unauthenticated) -> None:
        # Guessed tokens must not fill the memory.
        if len(self._kept) >= MOST_KEPT:
            now = monotonic()
            self._kept = {each: kept for each, kept in self._kept.items() if kept.until > now}
        if len(self._kept) < MOST_KEPT:
            self._kept[wanted] = _Kept(found, monotonic() + KEPT_S)


def _fail(future: "asyncio.Future[Principal]", error: Exception) -> None:
    if not future.done():
        future.set_exception(error)
        # Who asked may have gone meanwhile; then nobody fetches the error.
        future.exception()
