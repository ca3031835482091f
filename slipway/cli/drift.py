"""slipway drift …"""

import typer

from registry.client import deployments
from registry.contract.verdicts import ArmWindow, Distance
from slipway.cli.output import Column, Form, Output, hint, one, rows
from slipway.cli.session import client

app = typer.Typer(help="Live distributions beside stable and the reference.", no_args_is_help=True)

ARMS: list[Column[ArmWindow]] = [
    ("ROLE", lambda a: a.role),
    ("VERSION", lambda a: a.version),
    ("REQUESTS", lambda a: a.assigned),
    ("ERRORS", lambda a: a.errors),
    ("P50 MS", lambda a: f"{a.p50_ms:.2f}" if a.p50_ms is not None else None),
    ("P99 MS", lambda a: f"{a.p99_ms:.2f}" if a.p99_ms is not None else None),
    (
        "MEANS",
        lambda a: ", ".join(f"{d.observable} {d.mean:.4f}" for d in a.distributions if d.mean is not None),
    ),
    ("CLASSES", lambda a: _classes(a)),
]
DISTANCES: list[Column[Distance]] = [
    ("OBSERVABLE", lambda d: d.observable),
    ("BETWEEN", lambda d: " and ".join(d.between)),
    ("PSI", lambda d: f"{d.psi:.4f}"),
    ("JS", lambda d: f"{d.js:.4f}"),
    ("N", lambda d: d.n),
    ("ALERT", lambda d: "not enough data" if d.alert is None else d.alert),
]


def _classes(window: ArmWindow) -> str:
    """The five most frequent labels."""
    for found in window.distributions:
        if found.kind == "class" and found.n:
            names = (*found.labels, "other")
            top = sorted(zip(found.counts, names, strict=False), reverse=True)[:5]
            return ", ".join(f"{name} {count / found.n:.1%}" for count, name in top if count)
    return ""


@app.command()
def show(deployment: str, since: float = 600, output: Output = Form.TABLE) -> None:
    """Canary, stable and reference side by side over the last SINCE seconds."""
    found = client().call(deployments.drift(deployment, since))
    if output is not Form.TABLE:
        one(found, [], output)
        return
    rows(found.arms, ARMS, output)
    print()
    rows(found.distances, DISTANCES, output)
    hint(f"{found.start:%H:%M:%S}Z to {found.end:%H:%M:%S}Z")
