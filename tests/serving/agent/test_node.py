"""The whole node as a process: enrolment, serving, rollback, and what it survives."""

import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from threading import Event, Thread
from typing import Any

import httpx
import orjson
import pytest

from registry.contract.nodes import AssignedArm
from registry.contract.routes import ArmRole
from tests.serving.agent.making import arm, arm_id, assignment, digest_of, engine, fragment
from tests.serving.agent.peer import TOKEN, Peer
from tests.serving.tiny_models import classifier

PATIENCE_S = 60.0
INPUTS = {
    "inputs": [{"name": "x", "shape": [1, 4], "datatype": "FP32", "data": [1.0, 0.0, 0.0, 0.0]}],
}


def until(holds: Callable[[], Any], what: str, patience: float = PATIENCE_S) -> Any:
    """The first true value; a deadline with a wide margin."""
    give_up = time.monotonic() + patience
    while time.monotonic() < give_up:
        if value := holds():
            return value
        time.sleep(0.02)
    raise AssertionError(f"did not happen within {patience} s: {what}")


class Node:
    """A node's process, started again and again on one state directory."""

    def __init__(self, peer: Peer, state: Path) -> None:
        self.peer = peer
        self.state = state
        self.log = state.with_suffix(".log")
        self.process: subprocess.Popen[bytes] | None = None

    def start(self, *arguments: str) -> None:
        with self.log.open("ab") as log:
            self.process = subprocess.Popen(
                [
                    sys.executable,
                    "-m",
                    "serving.node",
                    f"--registry={self.peer.url}",
                    f"--state={self.state}",
                    "--listen=127.0.0.1:0",
                    *arguments,
                ],
                stderr=log,
            )

    def kill(self) -> None:
        assert self.process is not None
        self.process.kill()
        self.process.wait()

    def stop(self) -> int:
        assert self.process is not None
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
        return self.process.wait(timeout=PATIENCE_S)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{(self.state / 'port').read_text()}"

    def infer(self) -> httpx.Response | None:
        """None while nobody listens."""
        try:
            return httpx.post(f"{self.url}/v2/models/m/infer", json=INPUTS, timeout=10)
        except (httpx.TransportError, OSError):
            return None

    def answered_by(self) -> str | None:
        response = self.infer()
        return response.headers["x-slipway-version"] if response and response.status_code == 200 else None

    def admin(self, ask: dict[str, object]) -> dict[str, Any]:
        with socket.socket(socket.AF_UNIX) as line:
            line.settimeout(10)
            line.connect(str((self.state / "run" / "admin.sock").resolve()))
            line.sendall(orjson.dumps(ask) + b"\n")
            answer: dict[str, Any] = orjson.loads(line.makefile("rb").readline())
        return answer

    def children(self) -> set[int]:
        assert self.process is not None
        path = Path(f"/proc/{self.process.pid}/task/{self.process.pid}/children")
        return {int(pid) for pid in path.read_text().split()}


class Load:
    """Requests one after the other until it is left: every answer's status and version."""

    def __init__(self, node: Node) -> None:
        self.answers: list[tuple[int, str]] = []
        self._node = node
        self._over = Event()
        self._thread = Thread(target=self._run)

    def _run(self) -> None:
        with httpx.Client(timeout=20) as client:
            while not self._over.is_set():
                try:
                    answer = client.post(f"{self._node.url}/v2/models/m/infer", json=INPUTS)
                except httpx.TransportError as error:
                    self.answers.append((0, repr(error)))
                else:
                    self.answers.append((answer.status_code, answer.headers.get("x-slipway-version", "")))

    def __enter__(self) -> "Load":
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self._thread.join()

    def failures(self) -> list[tuple[int, str]]:
        return [answer for answer in self.answers if answer[0] != 200]


@pytest.fixture
def arms(peer: Peer, tmp_path: Path) -> dict[int, AssignedArm]:
    """Two versions whose bytes the store has."""
    made: dict[int, AssignedArm] = {}
    for number in (1, 2):
        content = classifier(tmp_path / f"model{number}.onnx", classes=2 + number).read_bytes()
        digest = digest_of(content)
        peer.blobs[digest] = content
        ref = engine(number).model_copy(update={"digest": digest, "size": len(content)})
        made[number] = arm(number, ref=ref)
    return made


@pytest.fixture
def node(peer: Peer, tmp_path: Path) -> Iterator[Node]:
    node = Node(peer, tmp_path / "node")
    yield node
    if node.process is not None and node.process.poll() is None:
        node.kill()
    print(node.log.read_text())


def stable(item: AssignedArm, share: int = 10_000) -> AssignedArm:
    return item.model_copy(update={"role": ArmRole.STABLE, "share": share})


def canary(item: AssignedArm, share: int) -> AssignedArm:
    return item.model_copy(update={"role": ArmRole.CANARY, "share": share})


def confirmed(peer: Peer, generation: int, moment: str) -> bool:
    return any(item.fence.generation == generation and item.moment == moment for item in peer.applied)


def served_one(node: Node, peer: Peer, arms: dict[int, AssignedArm]) -> None:
    """Bring a node to serving version 1 at generation 1."""
    peer.assign(assignment(fragment(1, [stable(arms[1])])))
    node.start("--enrol-token=once", "--name=n1", "--label=zone=a")
    until(lambda: node.state.joinpath("port").exists() and node.answered_by() == "m@1@fp32", "serving")


def test_from_enrolment_to_a_rollback_under_load(
    node: Node, peer: Peer, arms: dict[int, AssignedArm]
) -> None:
    served_one(node, peer, arms)
    assert peer.enrolments[0]["token"] == "Bearer once"
    body = orjson.loads(peer.enrolments[0]["body"])
    assert (body["name"], body["labels"], body["targets"][-1]) == ("n1", {"zone": "a"}, "ort.cpu")
    assert TOKEN in (node.state / "identity.json").read_text()
    until(lambda: confirmed(peer, 1, "drained"), "generation 1 drained")
    with Load(node) as load:
        peer.assign(assignment(fragment(2, [stable(arms[1], 5_000), canary(arms[2], 5_000)])))
        until(lambda: confirmed(peer, 2, "drained"), "generation 2 drained")
        until(lambda: {version for _, version in load.answers} >= {"m@1@fp32", "m@2@fp32"}, "both answer")
        peer.assign(assignment(fragment(3, [stable(arms[1]), canary(arms[2], 0)])))
        until(lambda: confirmed(peer, 3, "drained"), "generation 3 drained")
        seen = len(load.answers)
        until(lambda: len(load.answers) > seen + 50, "more requests")
    assert load.failures() == []
    after_drain = {version for _, version in load.answers[seen + 1 :]}
    assert after_drain == {"m@1@fp32"}, "the last answer of the bad arm precedes its drained"
    until(lambda: counted(peer) >= len(load.answers), "the counters reach the registry")
    assert node.stop() == 0
    # One request each for every look before the load began.
    assert counted(peer) == len(load.answers) + 1


def counted(peer: Peer) -> int:
    """Requests by the newest value of every counter key."""
    newest: dict[tuple[str, int, int, str], int] = {}
    for report in peer.reports:
        for item in report.counters:
            key = (report.incarnation, item.worker, item.generation, item.arm)
            newest[key] = sum(item.fields["assigned"].n) if "assigned" in item.fields else 0
    return sum(newest.values())


def test_killed_under_load_it_serves_from_disk_without_the_registry(
    node: Node, peer: Peer, arms: dict[int, AssignedArm]
) -> None:
    served_one(node, peer, arms)
    until(lambda: confirmed(peer, 1, "drained"), "generation 1 drained")
    children = node.children()
    assert len(children) == 2, "a gateway worker and an engine"
    node.kill()
    until(lambda: not any(Path(f"/proc/{pid}").exists() for pid in children), "the children die with it")
    peer.stop()
    url = node.url
    node.start()
    until(lambda: node.answered_by() == "m@1@fp32", "serving from disk")
    assert node.url == url, "the port stays the same"
    first = {report.incarnation for report in peer.reports}
    peer.start()
    until(lambda: {report.incarnation for report in peer.reports} - first, "it reports again")
    last_words = [report for report in peer.reports if any(item.final for item in report.counters)]
    assert {report.incarnation for report in last_words} == first
    assert node.stop() == 0


def test_a_direct_rollback_while_the_registry_is_away(
    node: Node, peer: Peer, arms: dict[int, AssignedArm]
) -> None:
    served_one(node, peer, arms)
    peer.assign(assignment(fragment(2, [stable(arms[1], 0), canary(arms[2], 10_000)])))
    until(lambda: node.answered_by() == "m@2@fp32", "version 2 serves")
    peer.stop()
    answer = node.admin({"kind": "roll_back", "deployment": "prod/m", "by": "ana"})
    assert answer["error"] == "" and answer["override"]["to"] == arm_id(1)
    until(lambda: node.answered_by() == "m@1@fp32", "version 1 serves")
    node.kill()
    node.start()
    until(lambda: node.answered_by() == "m@1@fp32", "still, after a kill")
    peer.assign(assignment(fragment(3, [stable(arms[1], 0), canary(arms[2], 10_000)])))
    peer.start()
    override = until(lambda: [item for report in peer.reports for item in report.overrides], "it is reported")
    assert override[0].by == "ana"
    assert node.answered_by() == "m@1@fp32"
    peer.assign(assignment(fragment(4, [stable(arms[2])], resolves=[override[0].id])))
    until(lambda: node.answered_by() == "m@2@fp32", "a generation that settles it is followed")
    assert node.stop() == 0


def test_a_killed_engine_and_a_killed_worker_come_back(
    node: Node, peer: Peer, arms: dict[int, AssignedArm]
) -> None:
    served_one(node, peer, arms)
    for pid in node.children():
        os.kill(pid, signal.SIGKILL)
    until(lambda: len(node.children()) == 2 and node.answered_by() == "m@1@fp32", "both are back")
    assert node.stop() == 0


def test_a_second_agent_is_refused_and_the_admin_socket_shows_what_the_first_does(
    node: Node, peer: Peer, arms: dict[int, AssignedArm]
) -> None:
    served_one(node, peer, arms)
    peer.stop()
    second = Node(peer, node.state)
    second.log = node.log.with_name("second.log")
    second.start()
    assert second.process is not None and second.process.wait(timeout=30) == 2
    assert "another node agent" in second.log.read_text()
    look = until(
        lambda: (found := node.admin({"kind": "look"}))["deployments"][0]["ready"] and found, "ready"
    )
    assert "prod/m at generation 1 routes m@1@fp32 100 %" in look["says"], "the first one is not disturbed"
    assert node.admin({"kind": "nonsense"})["error"]
    assert node.stop() == 0


def test_without_identity_and_token_it_says_what_to_do(node: Node) -> None:
    node.start()
    assert node.process is not None and node.process.wait(timeout=30) == 2
    assert "--enrol-token" in node.log.read_text()
