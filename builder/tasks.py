"""The two tasks that wake-ups name. Both claim by id and do what the lease says."""

from functools import cache

from builder.app import app
from builder.leasing import work_on
from builder.settings import settings
from registry.client import Client


@cache
def _client() -> Client:
    """One per pool process: connections don't survive a fork."""
    asked = settings()
    return Client(asked.registry_url, asked.token.get_secret_value())


def run(task_id: str) -> None:
    """What the task is for, its lease says."""
    work_on(task_id, _client(), settings())


# Two names, so that a broker's tools show what waits; queues keep them apart.
verify = app.task(name="slipway.verify")(run)
build = app.task(name="slipway.build")(run)
