"""Commands without an object: up, promote, rollback, wait, doctor."""

import sys
from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer
from pydantic import BaseModel

from registry.client import access, deployments, releases
from registry.client.secrets import masked
from registry.contract.releases import Receipt, ReceiptNode, Release, ReleasePhase
from registry.contract.tokens import Whoami
from slipway.cli.endings import DETACHED, DONE
from slipway.cli.output import Column, Form, Output, Told, hint, one, rows
from slipway.cli.release import DETAIL as RELEASE
from slipway.cli.release import number_of
from slipway.cli.session import client
from slipway.credentials import FILE, load
from slipway.direct import DirectAnswer, local_sockets, roll_back


class Running(BaseModel):
    """A service of this machine, once it works."""

    url: str
    token_file: Path
    home: Path


RECEIPT: list[Column[Receipt]] = [
    ("ROLLBACK", lambda r: r.id),
    ("DEPLOYMENT", lambda r: r.deployment),
    ("FROM", lambda r: ", ".join(f"{arm.version}@{arm.precision}" for arm in r.from_arms)),
    ("TO", lambda r: f"{r.to_arm.version}@{r.to_arm.precision}"),
    ("ASKED", lambda r: f"{r.asked_at:%Y-%m-%d %H:%M:%S}Z by {r.asked_by}"),
    ("REASON", lambda r: r.reason),
    ("FINAL", lambda r: r.final or "nodes are still awaited"),
]
RECEIPT_NODES: list[Column[ReceiptNode]] = [
    ("NODE", lambda n: n.name),
    ("STATE", lambda n: n.state),
    ("SWITCHED", lambda n: f"+{n.switched_ms:.0f} ms" if n.switched_ms is not None else None),
    ("DRAINED", lambda n: f"+{n.drained_ms:.0f} ms" if n.drained_ms is not None else None),
    ("COLD", lambda n: n.cold),
]
DIRECT: list[Column[DirectAnswer]] = [
    ("NODE", lambda d: d.node),
    ("ANSWER", lambda d: d.error or "went back; the registry is told when it returns"),
]
RUNNING: list[Column[Running]] = [
    ("URL", lambda r: r.url),
    ("TOKEN FILE", lambda r: r.token_file),
    ("HOME", lambda r: r.home),
]
WHOAMI: list[Column[Whoami]] = [
    ("NAME", lambda w: w.name),
    ("ROLES", lambda w: ", ".join(w.roles)),
    ("REGISTRY", lambda w: w.registry_id),
]


class State(StrEnum):
    """`healthy`: nothing is under way and nodes serve what was asked; `paused`: a release stands still."""

    HEALTHY = "healthy"
    PAUSED = "paused"
    CONVERGED = "converged"


def up(
    home: Annotated[Path, typer.Option(help="Everything of this service")] = Path(".slipway"),
    port: Annotated[int, typer.Option(min=0, max=65_535, help="0: any free one")] = 8080,
    nodes: Annotated[int, typer.Option(min=0, help="Serving nodes")] = 2,
    environment: Annotated[str, typer.Option(help="Environment of these nodes")] = "prod",
    output: Output = Form.TABLE,
) -> int:
    """Run the whole service on this machine until Ctrl-C. Where it is, is printed once it works."""
    from slipway import up as foreground
    from slipway.service import Options, plan

    options = Options(home=home, port=port, nodes=nodes, environment=environment)
    try:
        foreground.up(
            lambda addresses: plan(options, addresses),
            data_dir=home / "data",
            log_dir=home / "logs",
            announce=hint,
            ready=lambda planned: _tell_running(home, output, planned.ready),
        )
    except KeyboardInterrupt:
        hint("stopped before it ran; nothing is left running")
        return DETACHED
    return DONE


def _tell_running(home: Path, output: Form, sentence: str) -> None:
    if output is Form.TABLE:
        hint(sentence)
        return
    at = load(home / FILE.name)
    one(Running(url=at.url, token_file=home / "admin-token", home=home), RUNNING, output)
    # A pipe would keep it until the service ends.
    sys.stdout.flush()


def promote(
    version: Annotated[str, typer.Argument(help="MODEL@NUMBER or MODEL@NUMBER@PRECISION")],
    to: Annotated[str, typer.Option(help="ENVIRONMENT/NAME")],
    reason: str = "",
    supersede: Annotated[bool, typer.Option(help="End the release that is under way")] = False,
    output: Output = Form.TABLE,
) -> None:
    """Put a version into service by the deployment's policy."""
    one(client().promote(version, to, reason=reason, supersede=supersede), RELEASE, output)


def rollback(
    deployment: str,
    to: Annotated[str | None, typer.Option(help="MODEL@NUMBER[@PRECISION] that served before")] = None,
    reason: str = "",
    wait: Annotated[float, typer.Option(help="Seconds to wait for the nodes")] = 60,
    direct: Annotated[bool, typer.Option(help="Past the registry: to nodes on this machine")] = False,
    node_socket: Annotated[list[Path], typer.Option(help="A node's run/admin.sock, for --direct")] = [],  # noqa: B006
    allow_unfit: Annotated[
        bool, typer.Option("--allow-unfit", help="Also to a quarantined or archived version")
    ] = False,
    output: Output = Form.TABLE,
) -> int:
    """Go back to the last good version, from any state. Automation is pinned off."""
    if direct:
        return _roll_back_directly(deployment, node_socket, to, output)
    receipt = client().rollback(deployment, to, reason=reason, wait=wait, allow_unfit=allow_unfit)
    show_receipt(receipt, output)
    return 0 if receipt.final else 4


def _roll_back_directly(deployment: str, sockets: list[Path], to: str | None, output: Form) -> int:
    found = sockets or local_sockets(Path.cwd())
    if not found:
        raise ValueError("no node's admin socket is here; name them: --node-socket STATE/run/admin.sock")
    answers = roll_back(deployment, found, to)
    rows(answers, DIRECT, output)
    return 1 if any(answer.error for answer in answers) else 0


def show_receipt(receipt: Receipt, output: Form) -> None:
    if receipt.already:
        hint(
            f"Already rolled back by {receipt.asked_by} at {receipt.asked_at:%H:%M:%S}Z. "
            "Your press changed nothing."
        )
    one(receipt, RECEIPT, output)
    if output is Form.TABLE:
        print()
        rows(receipt.nodes, RECEIPT_NODES, output)


def receipt(rollback: str, output: Output = Form.TABLE) -> None:
    """Show a rollback's receipt."""
    show_receipt(client().call(releases.receipt(rollback)), output)


def wait(
    deployment: str,
    for_: Annotated[State, typer.Option("--for")] = State.HEALTHY,
    timeout: Annotated[float, typer.Option(help="Seconds")] = 600,
    output: Output = Form.TABLE,
) -> int:
    """Wait for a state of the newest release. Ctrl-C detaches; the release goes on."""
    told = Told()

    def seen(found: Release) -> None:
        hold = f" ({found.hold})" if found.hold else ""
        told(f"{found.arm.version} {found.phase}{hold} at {found.share / 100:g} %: {found.reason}")

    def reached(found: Release) -> bool:
        if for_ is State.PAUSED:
            return bool(found.hold)
        if for_ is State.CONVERGED:
            return client().call(deployments.status(deployment)).converged
        return found.phase is ReleasePhase.COMPLETED

    number = number_of(deployment, None)
    release = client().wait_release(deployment, number, reached, timeout, seen)
    one(release, RELEASE, output)
    return 0 if reached(release) else 3


def doctor(output: Output = Form.TABLE) -> None:
    """Check the address, the token, and say who we are."""
    one(client().call(access.whoami()), WHOAMI, output)
    hint(f"{masked(client().call.url)} answers and knows this token")


def install(app: typer.Typer) -> None:
    for command in (up, promote, rollback, receipt, wait, doctor):
        app.command()(command)
