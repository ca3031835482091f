"""Copies the files of versions that were registered from elsewhere: one of all processes takes each of them.

A copy holds a lease that it renews; files that an interrupted one brought are there for the next. What came
is kept like any client's file, verified by a worker, and sealed.
"""

import asyncio
import logging
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, replace

import httpx
from pydantic import ValidationError
from sqlalchemy.exc import DBAPIError
from sqlalchemy.exc import TimeoutError as PoolTimeout

from registry.contract.versions import VersionStage
from registry.edge.principal import SYSTEM
from registry.edge.resources import Resources
from registry.edge.unit import Unit
from registry.errors import Conflict, Invalid, Refusal, TooLarge, Unavailable
from registry.identity import Identity
from registry.lifecycle.manifest import manifest_faults
from registry.mlflow import artifacts, inbox, repository, sources
from registry.mlflow import versions as use_cases
from registry.mlflow.inbox import COPIES, MOST_FILES
from registry.mlflow.sources import Bucket, Logged, Run, Tracked
from registry.mlflow.tracking import SourceRefused, TrackingServer
from registry.models import versions
from registry.tables.mlflow import MlflowVersionRow
from registry.uploads import receiving

log = logging.getLogger(__name__)

COPIER = replace(SYSTEM, name="mlflow-copy")
SIDE_BY_SIDE = 2
LEASE_S = 60.0
RENEW_EVERY_S = 15.0
AGAIN_S = 5.0
MOST_ATTEMPTS = 5
VIA = "copy"


@dataclass(frozen=True)
class Order:
    version_id: str
    source: str
    fence: int
    attempt: int
    created_by: str

    @property
    def folder(self) -> str:
        return f"{COPIES}/{self.version_id}"


@dataclass(frozen=True)
class Place:
    """Files by their path in the version, and how to read one."""

    paths: tuple[str, ...]
    read: Callable[[str], AsyncIterator[bytes]]


class LeaseLost(Exception):
    """The version is gone, or another process is at it."""


class Copies:
    """Safe to run in every process."""

    def __init__(self, resources: Resources, identity: Identity) -> None:
        self._resources = resources
        self._identity = identity

    async def run(self) -> None:
        """Until cancelled. What is away is waited for."""
        await asyncio.gather(*(self._work() for _ in range(SIDE_BY_SIDE)))

    async def _work(self) -> None:
        while True:
            try:
                while await self.once():
                    pass
            except (DBAPIError, PoolTimeout, Unavailable) as error:
                log.warning("a copy waits: %s", error)
            except Exception:
                log.exception("a copy failed")
            await self._resources.copies.wait(self._resources.settings.sweep_every_s)

    async def once(self) -> bool:
        """Copies one version, or gives it up for now. False: nothing waits."""
        order = await self._claim()
        if order is None:
            return False
        try:
            if order.attempt > MOST_ATTEMPTS:
                raise SourceRefused(f"given up after {MOST_ATTEMPTS} attempts")
            async with self._renewed(order):
                await self._copy(order)
        except LeaseLost:
            log.info("the copy for %s goes on elsewhere, or is not wanted any more", order.version_id)
        except (SourceRefused, Invalid, TooLarge, ValidationError) as error:
            await self._give_up(order, _said(error))
        except (httpx.HTTPError, Conflict, Unavailable) as error:
            await self._put_off(order, _said(error))
        return True

    async def _claim(self) -> Order | None:
        async with self._unit() as unit:
            row = await repository.claim(unit.session, LEASE_S)
            if row is None:
                return None
            version = await repository.locked_version(unit.session, row.version_id)
            return Order(row.version_id, row.source, row.fence, row.attempt, version.created_by)

    async def _copy(self, order: Order) -> None:
        async with AsyncExitStack() as stack:
            place = await self._place(order, stack)
            faults = manifest_faults(place.paths)
            if faults or not place.paths:
                raise SourceRefused(faults[0] if faults else f"there are no files at {order.source}")
            for path in place.paths:
                await self._fetch(order, place, path)
        async with self._held(order) as (unit, row):
            version = await repository.locked_version(unit.session, order.version_id)
            if version.phase == VersionStage.DRAFT:
                files = await artifacts.below(unit.session, order.folder, MOST_FILES)
                await use_cases.make_of(unit, version, order.folder, files)
            row.waiting, row.trouble = False, ""
            await artifacts.remove_below(unit.session, order.folder)

    async def _fetch(self, order: Order, place: Place, path: str) -> None:
        target = f"{order.folder}/{path}"
        async with self._held(order) as (unit, _):
            if await artifacts.one(unit.session, target) is not None:
                return
        received = await receiving.receive(self._resources, place.read(path), inbox.wanted_head(path))
        async with self._held(order) as (unit, _):
            await inbox.keep(unit, target, received)

    async def _place(self, order: Order, stack: AsyncExitStack) -> Place:
        """Follows the source to its files. Raises SourceRefused, Invalid."""
        settings = self._resources.settings
        source = sources.read(order.source)
        match source:
            case Logged() | Run():
                return await self._looked_up(source, stack)
            case Tracked():
                return await self._tracked(
                    await self._server(sources.server_of(source, settings), stack), source
                )
            case Bucket():
                return await self._bucket(source)
            case _:
                raise SourceRefused(f"{order.source} is not copied from elsewhere")

    async def _looked_up(self, source: Logged | Run, stack: AsyncExitStack) -> Place:
        """At the first tracking server that knows it."""
        refusals: list[str] = []
        for url in self._resources.settings.mlflow_tracking_urls:
            server = await self._server(url.rstrip("/"), stack)
            try:
                if isinstance(source, Logged):
                    uri = await server.place_of_model(source.model_id)
                else:
                    uri = f"{(await server.place_of_run(source.run_id)).rstrip('/')}/{source.path}"
            except SourceRefused as refused:
                refusals.append(str(refused))
                continue
            found = sources.read(uri)
            if isinstance(found, Bucket):
                return await self._bucket(found)
            if isinstance(found, Tracked):
                if found.server is not None:
                    server = await self._server(sources.server_of(found, self._resources.settings), stack)
                return await self._tracked(server, found)
            raise SourceRefused(f"its files are at {uri}, from where nothing is copied")
        raise SourceRefused("no tracking server knows it: " + "; ".join(refusals))

    async def _server(self, url: str, stack: AsyncExitStack) -> TrackingServer:
        token = self._resources.settings.mlflow_tracking_token
        return await stack.enter_async_context(
            TrackingServer(url, None if token is None else token.get_secret_value())
        )

    async def _tracked(self, server: TrackingServer, source: Tracked) -> Place:
        paths = await server.files(source.path)
        return Place(tuple(paths), lambda path: server.read(f"{source.path}/{path}"))

    async def _bucket(self, source: Bucket) -> Place:
        sources.check_allowed(source, self._resources.settings)
        store, prefix = self._resources.blobs, f"{source.prefix}/" if source.prefix else ""
        found = await store.elsewhere(source.bucket, prefix, MOST_FILES + 1)
        if len(found) > MOST_FILES:
            raise SourceRefused(f"there are more than {MOST_FILES} files below s3://{source.bucket}/{prefix}")
        # A key that ends with a slash stands for a folder.
        paths = tuple(item.key[len(prefix) :] for item in found if not item.key.endswith("/"))
        return Place(paths, lambda path: store.read_elsewhere(source.bucket, f"{prefix}{path}"))

    async def _give_up(self, order: Order, reason: str) -> None:
        """draft → rejected; clients read FAILED_REGISTRATION with the reason."""
        async with self._unit() as unit:
            row = await repository.held(unit.session, order.version_id, order.fence)
            if row is None:
                return
            version = await repository.locked_version(unit.session, order.version_id)
            last = f"; the last one: {row.trouble}" if row.trouble and order.attempt > MOST_ATTEMPTS else ""
            if version.phase == VersionStage.DRAFT:
                await versions.fail(unit, version, f"its files could not be copied: {reason}{last}"[:1024])
            row.waiting, row.trouble = False, reason
            await artifacts.remove_below(unit.session, order.folder)

    async def _put_off(self, order: Order, reason: str) -> None:
        log.warning("the copy for %s is tried again: %s", order.version_id, reason)
        async with self._unit() as unit:
            row = await repository.held(unit.session, order.version_id, order.fence)
            if row is not None:
                row.trouble = reason[:1024]
                await repository.lease(unit.session, row, AGAIN_S * order.attempt)

    @asynccontextmanager
    async def _renewed(self, order: Order) -> AsyncIterator[None]:
        async def renew() -> None:
            while True:
                await asyncio.sleep(RENEW_EVERY_S)
                try:
                    async with self._held(order) as (unit, row):
                        await repository.lease(unit.session, row, LEASE_S)
                except (DBAPIError, PoolTimeout, LeaseLost) as error:
                    log.warning("the lease of the copy for %s is not renewed: %s", order.version_id, error)

        task = asyncio.create_task(renew())
        try:
            yield
        finally:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)

    @asynccontextmanager
    async def _held(self, order: Order) -> AsyncIterator[tuple[Unit, MlflowVersionRow]]:
        """A transaction in the name of who registers. Raises LeaseLost: nothing may be written then."""
        async with self._unit(order.created_by) as unit:
            row = await repository.held(unit.session, order.version_id, order.fence)
            if row is None:
                raise LeaseLost
            yield unit, row

    @asynccontextmanager
    async def _unit(self, actor: str = COPIER.name) -> AsyncIterator[Unit]:
        async with self._resources.database.session() as session:
            unit = Unit(session, self._resources, self._identity, caller=replace(COPIER, name=actor), via=VIA)
            async with session.begin():
                yield unit
        self._resources.errands.send(unit.after_commit)


def _said(error: Exception) -> str:
    if isinstance(error, Refusal):
        return error.detail
    if isinstance(error, ValidationError):
        return f"the tracking server's answer is not understood: {error.errors()[0]['msg']}"
    return str(error) or type(error).__name__
