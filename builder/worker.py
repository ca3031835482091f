"""Starts a worker: `python -m builder.worker --queues cpu`, and another for `--queues verify`.

Pool processes are forked from a parent that has loaded no framework; every step is a program of its own, so
a CUDA context is never inherited.
"""

import argparse
import logging
import os
import sys
import warnings

from celery.exceptions import SecurityWarning
from celery.signals import worker_ready
from pydantic import ValidationError

from builder.settings import Settings, settings
from registry.client.variables import strangers, wrong
from serving.runtimes.environment import check_environment
from serving.runtimes.errors import ConflictingRuntimes

logger = logging.getLogger("builder.worker")


def main(arguments: list[str]) -> int:
    asked = _parser().parse_args(arguments)
    try:
        check_environment()
        print(settings().shown(), file=sys.stderr, flush=True)
    except ConflictingRuntimes as error:
        print(f"the worker can't start: {error}", file=sys.stderr)
        return 1
    except ValidationError as error:
        for sentence in wrong(Settings, error):
            print(f"the worker can't start: {sentence}", file=sys.stderr)
        return os.EX_CONFIG
    for sentence in strangers(os.environ):
        print(f"warning: {sentence}", file=sys.stderr, flush=True)
    # Reads the settings when it is imported, so only after they are known to be right.
    from builder.app import app

    # Who may run it is the operator's choice: in a container root is the only user, and steps are isolated.
    warnings.filterwarnings("ignore", category=SecurityWarning)
    worker_ready.connect(_ready, weak=False)
    app.worker_main(
        [
            "worker",
            f"--queues={asked.queues}",
            f"--concurrency={asked.concurrency}",
            f"--hostname={asked.queues.replace(',', '-')}-%i@%h",
            f"--loglevel={asked.log_level}",
            "--pool=prefork",
            "--without-gossip",
            "--without-mingle",
            "--without-heartbeat",
        ]
    )
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m builder.worker", description="Serve queues of tasks.")
    parser.add_argument("--queues", required=True, help="comma separated: cpu, gpu.sm_90, verify …")
    parser.add_argument("--concurrency", type=int, default=1, help="tasks at a time (default 1)")
    parser.add_argument("--log-level", default="INFO")
    return parser


def _ready(**_: object) -> None:
    logger.info("worker ready")


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
