"""`./run demo`: the main job from end to end on a real model and real input."""

import argparse
import signal
import statistics
import sys
import time
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

from registry.client import ApiError, Unreachable, deployments, releases
from registry.client.transfer import TransferFailed
from registry.contract.builds import Build
from registry.contract.identity import parse_version
from registry.contract.recipes import Precision
from registry.contract.releases import Receipt, Release
from registry.contract.versions import BatchRule
from slipway.children import ChildFailed
from slipway.client import WaitTimedOut
from slipway.demo import assets, files, material, report, traffic
from slipway.demo.contracts import Fault, Package
from slipway.demo.material import Judges
from slipway.demo.service import Service, service
from slipway.demo.story import MODEL, REF, STATIC, Demo, DemoFailed
from slipway.demo.traffic import Journal, Load
from slipway.stack import StackError

RATE = 60.0
QUIET_S = 15.0
CAUGHT_WITHIN_S = 120.0
ENDED_WITHIN_S = 60.0
NOISY_LOSS = 0.03
RELEASED = (Precision.FP32, Precision.INT8_STATIC)
VALIDATION, CALIBRATION, GOLDEN = 700, 96, 8


def options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="./run demo",
        description="Registers, builds, releases, watches and rolls back a real model under real traffic.",
    )
    parser.add_argument(
        "--fault",
        type=Fault,
        choices=list(Fault),
        default=Fault.WINDOW,
        metavar="FAULT",
        help="of version 3: none, window (default), labels, noise, errors, latency",
    )
    parser.add_argument("--seed", type=int, default=1, help="of the files that are drawn")
    parser.add_argument("--rate", type=float, default=RATE, help="requests a second")
    parser.add_argument("--keep", action="store_true", help="leave the service running until Ctrl-C")
    parser.add_argument("--home", type=Path, default=Path(".slipway") / "demo", help="where it all lies")
    parser.add_argument("-o", "--output", choices=("text", "json"), default="text")
    return parser.parse_args()


def say(text: str) -> None:
    """Progress, on stderr."""
    print(f"{datetime.now(UTC):%H:%M:%S} {text}", file=sys.stderr, flush=True)


class Play:
    """The acts in their order, and what came of them."""

    def __init__(self, on: argparse.Namespace, running: Service) -> None:
        self.on = on
        self.running = running
        found = assets.fetch()
        say("reading the files of this machine's Python installation")
        samples = files.collect(on.seed, VALIDATION, CALIBRATION, GOLDEN)
        self.made = material.make(running.client, found, samples, running.home / "material")
        self.demo = Demo(running.client, found, self.made, running.home, say)
        self.engines: list[report.BuildLine] = []
        self.releases: list[report.ReleaseLine] = []
        self.careful: str | None = None
        self.queued: dict[str, Build] = {}
        self.again: dict[str, Callable[[], Build]] = {}
        self.sound = 1
        say(
            f"{len(samples.traffic)} files as traffic; "
            f"top1 on {self.made.rows} others is {self.made.top1:.4f}"
        )

    def first(self) -> None:
        """Version 1: three engines, one of them refused; FP32 goes into service."""
        demo = self.demo
        first = demo.register(demo.right(golden=True), golden=True)
        every = (Precision.FP32, Precision.INT8_STATIC, Precision.INT8_DYNAMIC)
        self.engines += report.build_lines(demo.built(demo.submit(first, every)))
        demo.deploy()
        self.releases.append(report.release_line(demo.complete(demo.promote(f"{MODEL}@1"), None)))

    def second(self, load: Load) -> None:
        """Version 2, the same bytes: from FP32 to INT8 step by step. The next ones are built meanwhile."""
        demo = self.demo
        second = demo.register(demo.right(golden=True), golden=True, parent=1)
        package = demo.right(golden=True)
        made = demo.releasable(
            demo.submit(second, RELEASED), lambda: self.once_more(package, second.number, golden=True)
        )
        self.sound = parse_version(made.version).number
        release = demo.promote(f"{made.version}{STATIC}")
        self.register_rest()
        self.releases.append(report.release_line(demo.complete(release, load)))

    def once_more(
        self, package: Package, parent: int, *, golden: bool, judges: Judges | None = None
    ) -> Build:
        """The same model as a version of its own: with another limit of rows, its speed is measured anew."""
        fewer = BatchRule(max_rows=package.contract.batch.max_rows - 1)
        other = replace(package, contract=package.contract.model_copy(update={"batch": fewer}))
        version = self.demo.register(other, golden=golden, parent=parent)
        return self.demo.submit(version, RELEASED, judges)

    def register_rest(self) -> None:
        """Version 3 with its fault, the same with care, and version 4; their builds wait in the queue."""
        demo, fault = self.demo, self.on.fault
        wrong = demo.faulty(fault)
        third = demo.register(wrong, golden=False, parent=self.sound)
        judges = self.made.text if fault is Fault.ERRORS else self.made.all
        if fault is Fault.NOISE:
            # Noise costs an INT8 engine more than its source; who does not know of it widens the limit.
            judges = replace(judges, max_loss=NOISY_LOSS)
        last = demo.right(golden=True, max_rows=8)
        fourth = demo.register(last, golden=True, parent=self.sound)
        self.again = {
            "third": lambda: self.once_more(wrong, third.number, golden=False, judges=judges),
            "fourth": lambda: self.once_more(last, fourth.number, golden=True),
        }
        self.queued = {
            "third": demo.submit(third, RELEASED, judges),
            "careful": demo.careful(wrong, judges),
            "fourth": demo.submit(fourth, RELEASED),
        }

    def third(self, load: Load) -> bool:
        """Version 3, with the fault: caught by itself. The answer: the replayed verdict is the same."""
        demo, fault = self.demo, self.on.fault
        made = demo.releasable(self.queued["third"], self.again["third"])
        self.engines += report.build_lines(made)
        self.careful = demo.refusal(self.queued["careful"])
        release = demo.promote(f"{made.version}{STATIC}")
        if fault is Fault.NONE:
            self.releases.append(report.release_line(demo.complete(release, load)))
        else:
            caught = demo.wait_caught(release, CAUGHT_WITHIN_S)
            self.releases.append(report.release_line(caught.release, caught))
            demo.unpin()
        same = self.running.client.call(releases.explain(REF, release.number)).matches
        told = "matches" if same else "DOES NOT MATCH"
        say(f"slipway release explain {REF} --number {release.number}: the replay {told}")
        return same

    def fourth(self, load: Load) -> tuple[Release, Receipt]:
        """Version 4, to 25 %; then back by hand, under load."""
        demo = self.demo
        made = demo.releasable(self.queued["fourth"], self.again["fourth"])
        widened = demo.widen(demo.promote(f"{made.version}{STATIC}"), 2_500, load)
        time.sleep(3)
        receipt = demo.rollback_by_hand()
        time.sleep(2)
        # The receipt is final before the controller has closed the release.
        ended = self.running.client.wait_release(REF, widened.number, lambda _: False, ENDED_WITHIN_S)
        self.releases.append(report.release_line(ended))
        return ended, receipt


def play(on: argparse.Namespace, running: Service, began: float) -> report.Report:
    """All acts, and the report."""
    acts = Play(on, running)
    acts.first()
    token = running.home / "admin-token"
    url = running.credentials.url
    with traffic.load(acts.made.inputs, url, REF, token, running.home, on.rate, on.seed) as load:
        say(f"{on.rate:g} requests a second, open loop, no retries")
        time.sleep(QUIET_S)
        acts.second(load)
        explained = acts.third(load)
        ended, receipt = acts.fourth(load)
        journal = load.stop()
    addresses = [node.targets[0] for node in running.client.call(deployments.nodes(REF))]
    latencies = [attempt.latency_ms for attempt in journal.attempts]
    in_time = answered_before_drained(running, journal, ended, receipt)
    return report.Report(
        fault=on.fault,
        seconds=time.monotonic() - began,
        builds=acts.engines,
        refused_with_golden=acts.careful,
        releases=acts.releases,
        explained=explained,
        rollback=report.rollback_line(receipt, answers_before_drained=in_time),
        traffic=report.TrafficLine(
            requests=len(journal.attempts),
            failed=len(journal.failed),
            counted_by_nodes=traffic.counted_by_nodes(addresses),
            p50_ms=statistics.median(latencies),
            p99_ms=statistics.quantiles(latencies, n=100)[98],
        ),
    )


def answered_before_drained(running: Service, journal: Journal, release: Release, receipt: Receipt) -> bool:
    """On each node: the client's last answer of the bad version came before the node was drained."""
    seen = {node.node: node.address for node in running.client.call(deployments.status(REF)).nodes}
    for node in receipt.nodes:
        times = [
            attempt.answered_at
            for attempt in journal.attempts
            if attempt.arm == release.arm.id and attempt.node == seen.get(node.node)
        ]
        drained = receipt.asked_at.timestamp() + (node.drained_ms or 0) / 1000
        if times and max(times) > drained:
            return False
    return True


def checked(found: report.Report) -> list[str]:
    """What the demo promises; each broken promise as a sentence."""
    broken = []
    if found.traffic.failed:
        broken.append(f"{found.traffic.failed} requests failed")
    if found.traffic.requests != found.traffic.counted_by_nodes:
        broken.append(
            f"{found.traffic.requests} requests were answered, "
            f"the nodes counted {found.traffic.counted_by_nodes}"
        )
    if not found.explained:
        broken.append("the replayed verdict differs from the one that was decided")
    if not found.rollback.last_bad_answer_before_drained:
        broken.append("a client got an answer of the bad version after its node was drained")
    return broken


def main() -> None:
    on = options()
    began = time.monotonic()
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        with service(on.home.resolve(), say) as running:
            found = play(on, running, began)
            where = f"Everything can be seen at {running.credentials.url} (token: {on.home}/admin-token)"
            broken = checked(found)
            found.broken = broken
            print(found.model_dump_json() if on.output == "json" else report.text(found, where), flush=True)
            for sentence in broken:
                say(f"BROKEN: {sentence}")
            if on.keep:
                say(f"still running at {running.credentials.url}; Ctrl-C stops it")
                signal.pause()
            elif on.output == "text":
                say("stopping; ./run demo --keep leaves it running")
    except (
        DemoFailed,
        assets.AssetError,
        ApiError,
        Unreachable,
        TransferFailed,
        WaitTimedOut,
        StackError,
        ChildFailed,
    ) as error:
        say(f"the demo stopped: {error}")
        if on.output == "json":
            told = report.Failure(fault=on.fault, seconds=time.monotonic() - began, failed=str(error))
            print(told.model_dump_json(), flush=True)
        sys.exit(1)
    except KeyboardInterrupt:
        say("stopped")
        sys.exit(130)
    sys.exit(1 if broken else 0)


if __name__ == "__main__":
    main()
