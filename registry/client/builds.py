"""Calls on builds, engines and cached steps."""

from registry.client.call import Call, path, query
from registry.contract.builds import Build, BuildCreate, CachedStep, EngineWrite, StepWrite, TaskFinish
from registry.contract.deployments import Arm
from registry.contract.engines import Engine
from registry.contract.pages import Page
from registry.contract.wire import Command


def create(body: BuildCreate) -> Call[Build]:
    return Call("POST", path("builds"), Build, body)


def get(build: str) -> Call[Build]:
    return Call("GET", path("builds", build), Build)


def page(version: str | None = None, page_token: str | None = None, limit: int = 100) -> Call[Page[Build]]:
    return Call(
        "GET",
        path("builds"),
        Page[Build],
        query=query(version=version, page_token=page_token, limit=limit),
    )


def log(build: str) -> Call[str]:
    """The log so far, as one JSON string."""
    return Call("GET", path("builds", build, "log"), str)


def cancel(build: str) -> Call[Build]:
    return Call("POST", path("builds", build, "cancel"), Build, Command())


def retry(build: str) -> Call[Build]:
    return Call("POST", path("builds", build, "retry"), Build, Command())


def write_step(build: str, body: StepWrite) -> Call[None]:
    return Call("PUT", path("builds", build, "steps"), None, body)


def write_engine(build: str, body: EngineWrite) -> Call[Engine]:
    return Call("PUT", path("builds", build, "engines"), Engine, body)


def finish(build: str, body: TaskFinish) -> Call[Build]:
    return Call("POST", path("builds", build, "finish"), Build, body)


def cached_step(key: str) -> Call[CachedStep | None]:
    """None: never ran."""
    return Call("GET", path("cached-steps", key), CachedStep | None)


def write_cached_step(body: CachedStep) -> Call[CachedStep]:
    """The first writer's result is the answer."""
    return Call("PUT", path("cached-steps", body.key), CachedStep, body)


def engine(engine: str) -> Call[Engine]:
    return Call("GET", path("engines", engine), Engine)


def engines(
    version: str | None = None, page_token: str | None = None, limit: int = 100
) -> Call[Page[Engine]]:
    """Newest first."""
    return Call(
        "GET",
        path("engines"),
        Page[Engine],
        query=query(version=version, page_token=page_token, limit=limit),
    )


def arm(arm: str) -> Call[Arm]:
    return Call("GET", path("arms", arm), Arm)
