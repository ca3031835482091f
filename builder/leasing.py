"""From a wake-up to finished work: claim, do, report. A wake-up that comes twice or late does no harm."""

import logging
import os
import socket
import time
from typing import assert_never

import httpx

from builder.builds.building import run_build
from builder.held import FIRST_PAUSE_S, LONGEST_PAUSE_S, Held, LeaseLost
from builder.settings import Settings
from builder.store import Store
from builder.verifying import run_verify
from registry.client import ApiError, Client, Unreachable, tasks
from registry.client.transfer import TransferFailed
from registry.contract.problems import ProblemType
from registry.contract.tasks import BuildOrder, Claim, Lease, VerifyOrder

logger = logging.getLogger(__name__)


def worker_name() -> str:
    return f"{socket.gethostname()}:{os.getpid()}"[-128:]


def work_on(task_id: str, client: Client, settings: Settings) -> None:
    """Returns when there is nothing (more) to do for this wake-up. What went wrong on the way leaves the
    lease to expire: the registry wakes a worker again, as often as it allows."""
    lease = _claim(task_id, client, settings.patience_s)
    if lease is None:
        return
    logger.info("task %s, attempt %d", task_id, lease.attempt)
    with Held(client, lease) as held:
        try:
            _work(held, client, settings)
        except LeaseLost as lost:
            logger.info("task %s was given up: %s", task_id, lost)
        except (ApiError, Unreachable, TransferFailed, httpx.HTTPError, OSError) as error:
            logger.warning("attempt %d of task %s ended without a result: %s", lease.attempt, task_id, error)


def _work(held: Held, client: Client, settings: Settings) -> None:
    match held.lease.order:
        case VerifyOrder() as order:
            run_verify(held, order)
        case BuildOrder() as order:
            store = Store(settings.work_dir.resolve(), client)
            run_build(held, store, order.build, settings.step_threads, settings.allow_code)
            store.trim(settings.cache_gib)
        case _:
            assert_never(held.lease.order)


def _claim(task_id: str, client: Client, patience_s: float) -> Lease | None:
    """None: someone else holds it, it is over, it is unknown, or the registry stayed away."""
    until = time.monotonic() + patience_s
    pause = FIRST_PAUSE_S
    while True:
        try:
            return client(tasks.claim(task_id, Claim(worker=worker_name())))
        except Unreachable as error:
            problem = str(error)
        except ApiError as error:
            if error.status < 500:
                level = logging.INFO if error.kind == ProblemType.NOT_FOUND else logging.ERROR
                logger.log(level, "task %s can't be claimed: %s", task_id, error)
                return None
            problem = str(error)
        if time.monotonic() + pause > until:
            logger.warning("task %s is left to a later wake-up: %s", task_id, problem)
            return None
        time.sleep(pause)
        pause = min(LONGEST_PAUSE_S, pause * 2)
