"""The Celery application. A message is a nudge: what it names is claimed from the registry, or left alone."""

import ctypes
import logging
import os
import signal
import sys
from typing import Any

# Before Celery is imported: a polite stop (SIGTERM) is a soft shutdown with an end, not a wait for the last
# build of half an hour.
os.environ.setdefault("REMAP_SIGTERM", "SIGQUIT")

from celery import Celery
from celery.signals import worker_process_init

from builder.settings import settings

SOFT_SHUTDOWN_S = 5.0
_PR_SET_PDEATHSIG = 1

# It logs every address in full, and presigned ones are as good as a password.
logging.getLogger("httpx").setLevel(logging.WARNING)

app = Celery("slipway", broker=settings().redis_url, include=["builder.tasks"])
app.conf.update(
    task_acks_late=True,
    task_reject_on_worker_lost=True,
    worker_prefetch_multiplier=1,
    task_ignore_result=True,
    result_backend=None,
    task_serializer="json",
    accept_content=["json"],
    enable_utc=True,
    worker_cancel_long_running_tasks_on_connection_loss=False,
    worker_max_tasks_per_child=50,
    worker_soft_shutdown_timeout=SOFT_SHUTDOWN_S,
    worker_hijack_root_logger=True,
    worker_log_color=False,
    broker_connection_retry_on_startup=True,
    broker_connection_max_retries=None,
    broker_transport_options={
        "socket_connect_timeout": 2,
        "socket_keepalive": True,
        "health_check_interval": 10,
        # All that there are: the registry may send to any of them.
        "priority_steps": list(range(10)),
    },
)


def _die_with_worker(**_: Any) -> None:
    """A pool process whose worker was killed must not go on for hours unseen: its lease goes to another."""
    if sys.platform == "linux":
        ctypes.CDLL(None, use_errno=True).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)


worker_process_init.connect(_die_with_worker, weak=False)
