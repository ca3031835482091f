"""Killing what can be killed, under real traffic: nothing is lost, and no request fails by a rollback."""

import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import httpx

from registry.client import deployments, releases
from registry.contract.deployments import DeploymentCreate
from registry.contract.recipes import Precision, Recipe
from registry.contract.releases import ReleasePhase
from slipway.client import Client
from slipway.demo.service import Service, service
from slipway.demo.traffic import counted_by_nodes, load
from slipway.direct import roll_back
from tests.acceptance.conftest import CONTRACT, POLICY, write_model

REF = "prod/animals"


def released(client: Client, version: str) -> None:
    release = client.promote(version, REF)
    release = client.wait_release(REF, release.number, lambda r: r.phase is not ReleasePhase.PREPARING, 60)
    while release.phase is ReleasePhase.RUNNING:
        release = client.advance(REF, release.number)
    done = client.wait_release(REF, release.number, lambda r: r.phase is ReleasePhase.COMPLETED, 60)
    assert done.phase is ReleasePhase.COMPLETED, done.reason


def staged(running: Service, home: Path) -> None:
    client = running.client
    for number in (1, 2):
        model = write_model(home / f"{number}.onnx", float(number))
        client.register("animals", {"model.onnx": model}, CONTRACT)
        build = client.build(f"animals@{number}", Recipe(precisions=(Precision.FP32,)), wait=180)
        assert build.phase == "completed", build.reason
    body = DeploymentCreate(environment="prod", name="animals", model="animals", policy=POLICY)
    client.call(deployments.create(body))
    released(client, "animals@1")


def inputs(folder: Path) -> Path:
    folder.mkdir()
    for at in range(20):
        (folder / str(at)).write_text(f'{{"x": [{at % 5}.0, 1.0, {at % 3}.5]}}')
    return folder


def addresses(client: Client) -> list[str]:
    return [node.targets[0] for node in client.call(deployments.nodes(REF))]


def test_the_worst_night() -> None:
    """One story on one service, for the sake of its price: rollback under load, a killed API, a killed node
    that comes back with the registry gone, a direct rollback that the registry settles when it returns."""
    with tempfile.TemporaryDirectory(prefix="slipway-night-", ignore_cleanup_errors=True) as name:
        home = Path(name)
        home.chmod(0o711)
        with service(home / "service", print) as running:
            staged(running, home)
            client = running.client
            token = running.home / "admin-token"
            with load(inputs(home / "in"), running.credentials.url, REF, token, home, 40, 1) as traffic:
                time.sleep(2)
                released(client, "animals@2")
                receipt = client.rollback(REF, reason="by hand", wait=30)
                assert receipt.all_drained, receipt.final
                client.call(deployments.unpin(REF))
                running.launcher.kill("registry")
                running.launcher.wait_ready("registry")
                released(client, "animals@2")
                time.sleep(1)
                journal = traffic.stop()
            assert journal.attempts
            assert [attempt.error for attempt in journal.failed] == []
            nodes = addresses(client)
            assert counted_by_nodes(nodes) == len(journal.attempts)
            serves_without_the_registry(running, nodes)
            goes_back_directly(running, nodes)


def version_of(address: str) -> str | None:
    try:
        answer = httpx.post(
            f"http://{address}/v2/models/animals/predict", json={"x": [1.0, 2.0, 0.0]}, trust_env=False
        )
    except httpx.TransportError:
        return None
    return answer.headers["x-slipway-version"] if answer.is_success else None


def until(holds: Callable[[], bool], seconds: float = 30) -> None:
    deadline = time.monotonic() + seconds
    while not holds():
        assert time.monotonic() < deadline
        time.sleep(0.2)


def serves_without_the_registry(running: Service, nodes: list[str]) -> None:
    """kill -9 of a node, and its restart with the registry stopped: it serves from disk."""
    running.launcher.stop("registry")
    running.launcher.kill("node-1")
    until(lambda: (version_of(nodes[0]) or "").startswith("animals@2"))


def goes_back_directly(running: Service, nodes: list[str]) -> None:
    """`slipway rollback --direct` without the registry; when it is back, it makes the rollback its own."""
    sockets = sorted(running.home.glob("nodes/*/run/admin.sock"))
    assert len(sockets) == len(nodes)
    answers = roll_back(REF, sockets)
    assert [answer.error for answer in answers] == ["", ""]
    until(lambda: all((version_of(node) or "").startswith("animals@1") for node in nodes))
    running.launcher.start("registry")
    running.launcher.wait_ready("registry")
    until(lambda: running.client.call(deployments.get(REF)).pinned)
    found = running.client.call(deployments.get(REF))
    assert found.stable is not None
    assert found.stable.version == "animals@1"
    receipts = running.client.call(releases.receipts(REF)).items
    assert receipts[0].reason.startswith("direct rollback on node-")
    until(lambda: running.client.call(deployments.status(REF)).converged)
    assert all((version_of(node) or "").startswith("animals@1") for node in nodes)
