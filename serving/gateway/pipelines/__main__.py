"""`python -m serving.gateway.pipelines`: one worker of one version's pipeline. Started by a gateway worker.

It reads its order on standard input, answers on an inherited socket, one question at a time, and ends when
the socket does. Exit status: 0 ended so, 1 the pipeline can't be made (told on the socket and on stderr).
"""

import argparse
import gc
import os
import socket
import sys

from serving.engine.frames import Frame, FrameKind, Received, new_scratch, plain_frame, receive, tensors_of
from serving.engine.lifeline import Orphaned, die_with_parent
from serving.gateway.pipelines.messages import RAW, Order, tell_answers, tell_failure, tell_prepared
from serving.pipeline.errors import PipelineMismatch
from serving.pipeline.processing import Postprocess, Preprocess, post, pre

# Behind the loops of gateways, which others' requests wait for.
NICE = 5


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m serving.gateway.pipelines", description=__doc__)
    parser.add_argument("--fd", type=int, required=True, help="inherited SEQPACKET socket")
    parser.add_argument("--parent", type=int, help="process id; the worker dies with it")
    args = parser.parse_args()
    sock = socket.socket(fileno=args.fd)
    try:
        if args.parent is not None:
            die_with_parent(args.parent)
        order = Order.model_validate_json(sys.stdin.buffer.read())
        contract = order.contract
        worker = _Worker(
            pre(contract.pipeline, contract.signature, order.files),
            post(contract.pipeline, contract.signature, order.files),
        )
    except (PipelineMismatch, Orphaned, OSError) as error:
        print(f"pipeline worker: {error}", file=sys.stderr)
        tell_failure(error).send(sock)
        return 1
    os.nice(NICE)
    gc.collect()
    gc.freeze()
    plain_frame(FrameKind.REPORT, 1).send(sock)
    worker.serve(sock)
    return 0


class _Worker:
    def __init__(self, prepare: Preprocess, judge: Postprocess) -> None:
        self._prepare = prepare
        self._judge = judge

    def serve(self, sock: socket.socket) -> None:
        """Until the gateway closes the other end."""
        scratch = new_scratch()
        while True:
            try:
                question = receive(sock, scratch)
                if question is None:
                    return
                self._answer(question).send(sock)
            except (BrokenPipeError, ConnectionResetError):
                return

    def _answer(self, question: Received) -> Frame:
        """Whatever fails on one question is its answer: the next one has nothing to do with it."""
        try:
            tensors = tensors_of(question)
            if question.number:
                return tell_answers(self._judge.rows(tensors, question.number))
            return tell_prepared(self._prepare.prepare(tensors[RAW].tobytes()))
        except Exception as error:
            return tell_failure(error)


if __name__ == "__main__":
    sys.exit(main())
