"""`python -m serving.engine`: one engine in a process of its own, on a unix socket.

It ends on SIGTERM after the present run, and at once when its parent dies or closes the control socket.
Exit status: 0 ended as asked, 1 could not load (told on the control socket and on stderr).
"""

import argparse
import gc
import os
import signal
import sys
from pathlib import Path
from types import FrameType
from typing import get_args

from serving.engine.control import Control
from serving.engine.facts import EngineInfo
from serving.engine.lifeline import Orphaned, die_with_parent
from serving.engine.server import Server
from serving.runtimes.environment import check_environment
from serving.runtimes.errors import RuntimeFault
from serving.runtimes.loading import open_engine
from serving.runtimes.memory import resident_bytes
from serving.runtimes.protocol import GraphOptimisation, LoadedEngine, LoadOptions, LoadTimes


def main() -> int:
    args = _arguments()
    control = Control(args.control_fd)
    try:
        if args.parent is not None:
            die_with_parent(args.parent)
        control.part("start")
        check_environment()
        engine, times, _ = open_engine(
            args.engine,
            args.target,
            LoadOptions(args.threads, args.graph_optimisation),
            warm_rows=args.warm_rows,
            progress=control.part,
        )
        server = Server(args.socket, engine, _describer(args, engine, times))
    except (RuntimeFault, OSError, Orphaned) as error:
        print(f"engine process: {error}", file=sys.stderr)
        control.failed(error)
        return 1
    _serve(server, control, _describer(args, engine, times)(0))
    args.socket.unlink(missing_ok=True)
    return 0


def _serve(server: Server, control: Control, info: EngineInfo) -> None:
    def on_signal(_signal: int, _frame: FrameType | None) -> None:
        server.stop()

    signal.set_wakeup_fd(server.wake_fd)
    signal.signal(signal.SIGTERM, on_signal)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    if control.fileno is not None:
        server.watch(control.fileno)
    # What was made so far lives as long as the process: the collector need not look at it again.
    gc.collect()
    gc.freeze()
    control.ready(info)
    server.serve()


class _describer:
    """Runs so far → what this process says of itself."""

    def __init__(self, args: argparse.Namespace, engine: LoadedEngine, times: LoadTimes) -> None:
        self._args = args
        self._engine = engine
        self._times = times

    def __call__(self, runs: int) -> EngineInfo:
        memory = self._engine.memory()
        return EngineInfo(
            pid=os.getpid(),
            target=self._args.target,
            provider=self._engine.provider_that_ran,
            threads=self._args.threads,
            signature=self._engine.signature,
            load_ms=self._times.milliseconds(),
            engine_bytes=memory.engine,
            device_bytes=memory.device,
            rss_bytes=resident_bytes(),
            runs=runs,
        )


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m serving.engine", description=__doc__)
    parser.add_argument("--socket", type=Path, required=True, help="unix socket to listen on")
    parser.add_argument("--engine", type=Path, required=True, help="file to load")
    parser.add_argument("--target", required=True, help="what the file was built for, e.g. ort.cpu")
    parser.add_argument("--threads", type=int, default=1, help="cores that one run may use")
    parser.add_argument(
        "--graph-optimisation", choices=get_args(GraphOptimisation), default=LoadOptions().graph_optimisation
    )
    parser.add_argument("--warm-rows", type=int, default=0, help="run the batch buckets up to this, 0: none")
    parser.add_argument("--control-fd", type=int, help="inherited socket for progress; its end ends this")
    parser.add_argument("--parent", type=int, help="process id of the parent: ends with it")
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
