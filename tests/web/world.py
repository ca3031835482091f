"""A composed server on a real stack with two following nodes, shared by the tests of one module.

It lives in a thread of its own, so that tests can be plain functions and drive a browser.
"""

import asyncio
import threading
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass, field
from socket import socket
from typing import Any, LiteralString, TypeVar

import httpx
import psycopg
import pytest
import uvicorn

from registry.client import AsyncClient, access, deployments, releases
from registry.contract.deployments import DeploymentCreate, PlanStep, Policy
from registry.contract.nodes import Fragment
from registry.contract.releases import Promote, Receipt, Release, ReleasePhase, RollBack, Transition
from registry.contract.tokens import Role, TokenCreate
from registry.settings import Settings
from slipway.server import compose
from slipway.stack import Stack
from tests.conftest import fresh_database
from tests.registry import support
from tests.registry.conftest import ADMIN, Registry
from tests.registry.nodes.agents import Agent, enrol
from tests.registry.releases.fleet import Node, _resilient

T = TypeVar("T")

PLAN = tuple(PlanStep(share=share, dwell_s=0) for share in (500, 2_500, 5_000, 10_000))
POLICY = Policy(plan=PLAN, auto_advance=False, allow_unproven=True, node_timeout_s=2)
OWN = {"sec-fetch-site": "same-origin"}


@dataclass
class Follower(Node):
    """Confirms each moment once, however many deployments there are."""

    confirmed: set[tuple[str, int, str]] = field(default_factory=set)

    async def _applied(self, fragment: Fragment, moment: str) -> None:
        this = (fragment.deployment, fragment.fence.generation, moment)
        if this not in self.confirmed:
            self.confirmed.add(this)
            await super()._applied(fragment, moment)


@dataclass
class World:
    """`deployment` gives each test a deployment of its own; versions animals@1 … 3 are there."""

    registry: Registry
    nodes: list[Node]
    loop: asyncio.AbstractEventLoop
    visitors: list[httpx.Client] = field(default_factory=list)
    _made: int = 0

    @property
    def url(self) -> str:
        return self.registry.url

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        return asyncio.run_coroutine_threadsafe(work, self.loop).result(60)

    def token(self, name: str, *roles: Role) -> str:
        body = TokenCreate(name=name, roles=roles)
        return self.run(self.registry.client(access.create_token(body))).secret

    def visitor(self, name: str = "ana", *roles: Role) -> httpx.Client:
        """Signed in, with the cookie of a session and the headers of a browser."""
        client = httpx.Client(base_url=self.url, headers=OWN, trust_env=False, timeout=30)
        self.visitors.append(client)
        token = self.token(name, *(roles or (Role.RELEASER,)))
        answer = client.post("/login", data={"token": token, "next": "/"})
        assert answer.status_code == 303, answer.text
        return client

    def deployment(self, *versions: int, environment: str = "prod") -> str:
        """A new deployment on which the versions were released, one after the other."""
        self._made += 1
        name = f"animals-{self._made}"
        body = DeploymentCreate(environment=environment, name=name, model="animals", policy=POLICY)
        self.run(self.registry.client(deployments.create(body)))
        ref = f"{environment}/{name}"
        for version in versions:
            self.run(self._released(ref, version))
        return ref

    def trial(self, ref: str, version: int, steps: int = 1) -> Release:
        """A release that runs at the given step of the plan (5, 25, 50, 100 %)."""
        return self.run(self._trial(ref, version, steps))

    def roll_back(self, ref: str, to: str | None = None) -> Receipt:
        return self.run(self.registry.client(releases.roll_back(ref, RollBack(to=to, wait=20))))

    def sql(self, statement: LiteralString, *values: object) -> None:
        """What only time or a fault would do."""
        url = self.registry.settings.database_url.get_secret_value()
        with psycopg.connect(url, autocommit=True) as connection:
            connection.execute(statement, values)

    def until(self, what: str, holds: Callable[[], bool]) -> None:
        """At most 20 s."""

        async def wait() -> None:
            for _ in range(400):
                if await asyncio.to_thread(holds):
                    return
                await asyncio.sleep(0.05)
            raise AssertionError(f"not within 20 s: {what}")

        self.run(wait())

    @contextmanager
    def silent(self, at: int) -> Iterator[Node]:
        """A node that neither follows nor reports within the block, and is known to have stopped."""
        node = self.nodes[at]
        node.deaf = True
        try:
            self.run(self._age(node))
            yield node
        finally:
            node.deaf = False

    async def _age(self, node: Node) -> None:
        """Its last poll may still be under way, and is followed by one more report."""
        reported = -1
        while reported != node.agent.seq:
            reported = node.agent.seq
            await asyncio.sleep(3)
        await support.run_sql(
            self.registry,
            "UPDATE nodes SET reported_at = reported_at - interval '40 s', "
            "last_seen_at = last_seen_at - interval '40 s' WHERE name = %s",
            node.name,
        )

    async def _trial(self, ref: str, version: int, steps: int) -> Release:
        client = self.registry.client
        release = await client(releases.promote(ref, Promote(version=f"animals@{version}")))
        release = await self._past(ref, release.number, ReleasePhase.PREPARING)
        for _ in range(steps - 1):
            release = await client(releases.advance(ref, release.number, Transition()))
        await self._converged(ref)
        return release

    async def _released(self, ref: str, version: int) -> None:
        at_once = Promote(version=f"animals@{version}", plan=PLAN[-1:])
        release = await self.registry.client(releases.promote(ref, at_once))
        for phase in (ReleasePhase.PREPARING, ReleasePhase.RUNNING, ReleasePhase.COMPLETING):
            release = await self._past(ref, release.number, phase)
        assert release.phase is ReleasePhase.COMPLETED, release.reason
        await self._converged(ref)

    async def _converged(self, ref: str) -> None:
        for _ in range(600):
            if (await self.registry.client(deployments.status(ref))).converged:
                return
            await asyncio.sleep(0.05)
        raise AssertionError(f"the nodes of {ref} do not follow")

    async def _past(self, ref: str, number: int, phase: ReleasePhase) -> Release:
        for _ in range(600):
            found = await self.registry.client(releases.get(ref, number))
            if found.phase is not phase:
                return found
            await asyncio.sleep(0.05)
        raise AssertionError(f"release {number} of {ref} stays {phase}: {found.reason}")


@asynccontextmanager
async def _served(settings: Settings) -> AsyncIterator[str]:
    with socket() as listener:
        listener.bind(("127.0.0.1", 0))
        config = uvicorn.Config(
            compose(settings), log_config=None, lifespan="on", timeout_graceful_shutdown=2
        )
        server = uvicorn.Server(config)
        task = asyncio.create_task(server.serve(sockets=[listener]))
        while not server.started:
            if task.done():
                await task
                raise RuntimeError("the server did not start")
            await asyncio.sleep(0.01)
        try:
            yield f"http://127.0.0.1:{listener.getsockname()[1]}"
        finally:
            server.should_exit = True
            await task


@asynccontextmanager
async def _fleet(registry: Registry) -> AsyncIterator[list[Node]]:
    nodes: list[Node] = []
    for name in ("n1", "n2"):
        nodes.append(Follower(Agent(registry.url, await enrol(registry, name)), name))
        await nodes[-1].agent.report(memory_free_bytes=1 << 30)
    tasks = [asyncio.create_task(_resilient(node)) for node in nodes]
    try:
        yield nodes
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        for node in nodes:
            await node.agent.http.aclose()


@asynccontextmanager
async def _world(settings: Settings) -> AsyncIterator[World]:
    async with _served(settings) as url:
        registry = Registry(url, settings, AsyncClient(url, ADMIN), [])
        for number in (1, 2, 3):
            await support.ready_version(registry, files={"model.onnx": f"model {number}".encode()})
            await support.built(registry, f"animals@{number}")
        async with _fleet(registry) as nodes:
            world = World(registry, nodes, asyncio.get_running_loop())
            try:
                yield world
            finally:
                for visitor in world.visitors:
                    visitor.close()
                for client in (registry.client, *registry.clients):
                    await client.close()


@contextmanager
def running(settings: Settings) -> Iterator[World]:
    """The world in a thread of its own, until the end of the block."""
    ready: list[World | BaseException] = []
    up, over = threading.Event(), threading.Event()

    async def live() -> None:
        try:
            async with _world(settings) as world:
                ready.append(world)
                up.set()
                while not over.is_set():
                    await asyncio.sleep(0.05)
        except BaseException as error:
            ready.insert(0, error)
            raise
        finally:
            up.set()

    thread = threading.Thread(target=lambda: asyncio.run(live()), name="world")
    thread.start()
    up.wait()
    try:
        assert isinstance(ready[0], World), ready[0]
        yield ready[0]
    finally:
        over.set()
        thread.join()


def settings_of(stack: Stack, database_url: str) -> Settings:
    at = stack.addresses
    return Settings(
        database_url=database_url,
        redis_url=at.redis_url,
        s3_endpoint_url=at.s3_endpoint_url,
        s3_access_key=at.s3_access_key,
        s3_secret_key=at.s3_secret_key,
        s3_bucket=at.bucket,
        admin_token=ADMIN,
        look_every_s=0.3,
    )


@pytest.fixture(scope="module")
def world(stack: Stack, _admin: psycopg.Connection, _template: str) -> Iterator[World]:
    for url in fresh_database(stack.addresses, _admin, _template):
        with running(settings_of(stack, url)) as made:
            yield made
