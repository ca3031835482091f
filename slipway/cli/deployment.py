"""slipway deployment …"""

from pathlib import Path
from typing import Annotated

import typer

from registry.client import deployments
from registry.contract.deployments import (
    Deployment,
    DeploymentCreate,
    DeploymentPatch,
    ObservedNode,
    Pin,
    Policy,
)
from registry.contract.identity import parse_deployment
from registry.contract.routes import Route, RoutingUnit
from slipway.cli.files import document
from slipway.cli.output import Column, Form, Output, hint, one, rows
from slipway.cli.session import client, every, pairs

app = typer.Typer(help="Models served under a name in an environment.", no_args_is_help=True)


def shares(route: Route | None) -> str:
    """`fraud@2@fp32 95 %, fraud@3@fp32 5 %`."""
    if route is None:
        return "nothing"
    given = [f"{arm.version} {arm.share / 100:g} %" for arm in route.arms if arm.share]
    return ", ".join(given) or "nothing"


COLUMNS: list[Column[Deployment]] = [
    ("DEPLOYMENT", lambda d: d.ref),
    ("MODEL", lambda d: d.model),
    ("SERVES", lambda d: shares(d.requested)),
    ("GENERATION", lambda d: d.requested.fence.generation if d.requested else None),
    ("RELEASE", lambda d: d.active_release),
    ("PINNED", lambda d: d.pin_reason if d.pinned else False),
]
DETAIL: list[Column[Deployment]] = [
    *COLUMNS,
    ("STABLE", lambda d: f"{d.stable.version}@{d.stable.precision}" if d.stable else None),
    ("LAST GOOD", lambda d: f"{d.last_good.version}@{d.last_good.precision}" if d.last_good else None),
    ("PLAN", lambda d: " -> ".join(f"{step.share / 100:g} %" for step in d.policy.plan)),
    ("UNIT", lambda d: d.unit.kind),
    ("SELECTOR", lambda d: d.selector),
]
NODES: list[Column[ObservedNode]] = [
    ("NODE", lambda n: n.name),
    ("FRESH", lambda n: n.fresh),
    ("PUBLISHED", lambda n: n.published),
    ("GENERATION", lambda n: n.applied.generation if n.applied else None),
    ("ARMS", lambda n: ", ".join(f"{a.version} {a.share / 100:g} % {a.phase}" for a in n.arms)),
    ("SAYS", lambda n: n.says),
]


@app.command()
def create(
    deployment: str,
    model: Annotated[str, typer.Option()],
    selector: Annotated[list[str], typer.Option(help="NAME=VALUE label of nodes")] = [],  # noqa: B006
    policy: Annotated[Path | None, typer.Option(help="JSON file")] = None,
    key_header: Annotated[str | None, typer.Option(help="Route by this header, sticky")] = None,
    output: Output = Form.TABLE,
) -> None:
    """Create ENVIRONMENT/NAME."""
    ref = parse_deployment(deployment)
    unit = RoutingUnit(kind="key", header=key_header) if key_header else RoutingUnit()
    body = DeploymentCreate(
        environment=ref.environment,
        name=ref.name,
        model=model,
        selector=pairs(selector),
        unit=unit,
        policy=document(Policy, policy) if policy else Policy(),
    )
    one(client().call(deployments.create(body)), DETAIL, output)


@app.command("list")
def list_(environment: str | None = None, limit: int = 100, output: Output = Form.TABLE) -> None:
    """List deployments."""
    rows(every(lambda token: deployments.page(environment, token), limit), COLUMNS, output)


@app.command()
def get(deployment: str, output: Output = Form.TABLE) -> None:
    """Show the requested state of ENVIRONMENT/NAME."""
    one(client().call(deployments.get(deployment)), DETAIL, output)


@app.command()
def status(deployment: str, output: Output = Form.TABLE) -> None:
    """Show what nodes observe."""
    found = client().call(deployments.status(deployment))
    if output is not Form.TABLE:
        one(found, [], output)
        return
    rows(found.nodes, NODES, output)
    hint(f"generation {found.generation}, {'converged' if found.converged else 'not converged'}")


@app.command()
def policy(
    deployment: str,
    file: Annotated[Path, typer.Argument(help="JSON file")],
    output: Output = Form.TABLE,
) -> None:
    """Replace the policy."""
    found = client().call(deployments.get(deployment))
    body = DeploymentPatch(policy=document(Policy, file))
    one(client().call(deployments.patch(deployment, body, found.revision)), DETAIL, output)


@app.command()
def routes(deployment: str, limit: int = 20, output: Output = Form.TABLE) -> None:
    """List route generations, newest first."""
    columns: list[Column[Route]] = [
        ("GENERATION", lambda r: r.fence.generation),
        ("AT", lambda r: f"{r.created_at:%Y-%m-%d %H:%M:%S}Z"),
        ("CAUSE", lambda r: r.cause),
        ("SHARES", shares),
        ("ACTOR", lambda r: r.actor),
        ("REASON", lambda r: r.reason),
    ]
    rows(every(lambda token: deployments.routes(deployment, token), limit), columns, output)


@app.command()
def pin(deployment: str, reason: Annotated[str, typer.Option()], output: Output = Form.TABLE) -> None:
    """Switch automation off."""
    one(client().call(deployments.pin(deployment, Pin(reason=reason))), DETAIL, output)


@app.command()
def unpin(deployment: str, output: Output = Form.TABLE) -> None:
    """Lift the pin."""
    one(client().call(deployments.unpin(deployment)), DETAIL, output)
