"""slipway capacity: nodes for a peak, headroom and cost."""

from typing import Annotated

import typer

from registry.client import capacity
from registry.contract.capacity import RequestParts, TargetCapacity
from slipway.cli.output import Column, Form, Output, hint, one, rows
from slipway.cli.session import client

COLUMNS: list[Column[TargetCapacity]] = [
    ("TARGET", lambda t: t.target),
    ("NODES", lambda t: t.nodes),
    ("NEEDED", lambda t: "none will do" if t.nodes_needed is None else t.nodes_needed),
    ("REQUESTS/S PER NODE", lambda t: f"{t.rps_per_node:.0f}"),
    ("P99 MS", lambda t: f"{t.p99_ms:.2f}"),
    ("ROWS PER RUN", lambda t: f"{t.batch_rows:.1f}"),
    ("MS PER REQUEST", lambda t: _told(t.parts, ".3f")),
    ("PER MILLION", lambda t: None if t.cost_per_million is None else f"{t.cost_per_million:.2f}"),
    ("OF THAT", lambda t: None if t.cost_parts is None else _told(t.cost_parts, ".2f")),
]


def _told(parts: RequestParts, form: str) -> str:
    return ", ".join(
        f"{name} {value:{form}}"
        for name, value in (
            ("access", parts.access),
            ("pre", parts.pre),
            ("engine", parts.engine),
            ("post", parts.post),
        )
    )


def show(
    deployment: str,
    peak: Annotated[float, typer.Option(help="Requests a second")],
    p99: Annotated[float, typer.Option(help="Milliseconds that P99 may take")],
    version: Annotated[str | None, typer.Option(help="MODEL@NUMBER[@PRECISION] instead of stable")] = None,
    price: Annotated[float | None, typer.Option(help="Of one node, per hour")] = None,
    output: Output = Form.TABLE,
) -> None:
    """Say how many nodes a peak needs, what the pool has left, and what a million requests cost."""
    found = client().call(capacity.capacity(deployment, peak, p99, version, price))
    if output is not Form.TABLE:
        one(found, [], output)
        return
    print(f"{found.version}@{found.precision} on {found.deployment}: {found.says}")
    print()
    rows(found.targets, COLUMNS, output)
    if not found.enough:
        hint("warning: the pool is too small for this peak")
