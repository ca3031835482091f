"""`python -m serving.gateway`: one gateway worker. Started by the node's agent.

Exit status: 0 left as asked, 1 could not start (told on stderr).
"""

import argparse
import logging
import os
import socket
import sys
from pathlib import Path

import uvloop

from serving.engine.lifeline import Orphaned, die_with_parent
from serving.gateway.gateway import Identity
from serving.gateway.settings import GatewaySettings
from serving.gateway.worker import Order, Worker, listen


def main() -> int:
    logging.basicConfig(
        level=logging.INFO, stream=sys.stderr, format="%(levelname)s %(name)s: %(message)s", force=True
    )
    args = _arguments()
    try:
        if args.parent is not None:
            die_with_parent(args.parent)
        listener = socket.socket(fileno=args.fd) if args.fd is not None else listen(args.host, args.port)
        identity = Identity(args.worker, args.incarnation, args.state)
        order = Order(identity, listener, args.control, os.getpid())
        uvloop.run(_serve(order))
    except (OSError, Orphaned) as error:
        print(f"gateway worker: {error}", file=sys.stderr)
        return 1
    return 0


async def _serve(order: Order) -> None:
    await Worker(order, GatewaySettings()).run()


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m serving.gateway", description=__doc__)
    parser.add_argument("--worker", type=int, required=True, help="number of this worker in its node")
    parser.add_argument("--control", type=Path, required=True, help="the agent's unix socket")
    parser.add_argument("--state", type=Path, required=True, help="the node's state directory")
    parser.add_argument("--incarnation", required=True, help="of the agent; part of the counters' key")
    parser.add_argument("--host", default="127.0.0.1")
    parser.add_argument("--port", type=int, default=0, help="0: any; told to the agent in Hello")
    parser.add_argument("--fd", type=int, help="an inherited listening socket, instead of host and port")
    parser.add_argument("--parent", type=int, help="process id; the worker dies with it")
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
