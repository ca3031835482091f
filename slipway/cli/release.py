"""slipway release …"""

from collections.abc import Callable
from typing import Annotated

import typer

from registry.client import releases
from registry.client.call import Call
from registry.contract.releases import Receipt, Reject, Release, StepChange, Transition
from registry.contract.verdicts import GateProgress, Verdict
from slipway.cli.output import Column, Form, Output, hint, one, rows
from slipway.cli.session import client, every

app = typer.Typer(help="Move a deployment to another version, step by step.", no_args_is_help=True)

Reason = Annotated[str, typer.Option(help="Kept in the history and the audit trail")]


def _approvals(release: Release) -> str | None:
    if not release.approvals_needed:
        return None
    by = ", ".join(approval.by for approval in release.approvals)
    return f"{len(release.approvals)} of {release.approvals_needed}" + (f": {by}" if by else "")


COLUMNS: list[Column[Release]] = [
    ("RELEASE", lambda r: f"{r.deployment} {r.number}"),
    ("TO", lambda r: f"{r.arm.version}@{r.arm.precision}"),
    ("FROM", lambda r: f"{r.from_arm.version}@{r.from_arm.precision}" if r.from_arm else None),
    ("PHASE", lambda r: f"{r.phase} ({r.hold})" if r.hold else r.phase),
    ("STEP", lambda r: f"{r.step + 1}/{len(r.plan)}"),
    ("SHARE", lambda r: f"{r.share / 100:g} %"),
    ("REASON", lambda r: r.reason),
]
DETAIL: list[Column[Release]] = [
    *COLUMNS,
    ("PLAN", lambda r: " -> ".join(f"{step.share / 100:g} %" for step in r.plan)),
    ("VERDICT", lambda r: f"{r.verdict.kind}: {r.verdict.sentence}" if r.verdict else None),
    ("APPROVALS", _approvals),
    ("GUARDS", lambda r: "; ".join(f"{g.name} {g.outcome}" for g in r.guards)),
]
RECEIPTS: list[Column[Receipt]] = [
    ("ROLLBACK", lambda r: r.id),
    ("AT", lambda r: f"{r.asked_at:%Y-%m-%d %H:%M:%S}Z"),
    ("BY", lambda r: r.asked_by),
    ("RELEASE", lambda r: r.release),
    ("TO", lambda r: f"{r.to_arm.version}@{r.to_arm.precision}"),
    ("REASON", lambda r: r.reason),
    ("END", lambda r: r.final or ("switched" if r.all_switched else "under way")),
]
HISTORY: list[Column[StepChange]] = [
    ("AT", lambda c: f"{c.at:%H:%M:%S}Z"),
    ("PHASE", lambda c: f"{c.phase} ({c.hold})" if c.hold else c.phase),
    ("SHARE", lambda c: f"{c.share / 100:g} %"),
    ("CAUSE", lambda c: c.cause),
    ("BY", lambda c: f"{c.actor}{' (command)' if c.by_command else ''}"),
    ("REASON", lambda c: c.reason),
]
GATES: list[Column[GateProgress]] = [
    ("TEST", lambda g: g.name),
    ("FOR", lambda g: g.purpose),
    ("VALUE", lambda g: f"{g.value:.4g}" if g.value is not None else None),
    ("LINE", lambda g: f"{g.threshold:.4g}" if g.threshold is not None else None),
    ("N", lambda g: g.n),
    ("OUTCOME", lambda g: g.outcome),
    ("SENTENCE", lambda g: g.sentence),
]


def number_of(deployment: str, number: int | None) -> int:
    """The given release, or the newest. Raises ValueError."""
    if number is not None:
        return number
    found = client().call(releases.page(deployment, limit=1)).items
    if not found:
        raise ValueError(f"{deployment} has no release yet; start one: slipway promote")
    return found[0].number


@app.command("list")
def list_(deployment: str, limit: int = 20, output: Output = Form.TABLE) -> None:
    """List releases, newest first."""
    rows(every(lambda token: releases.page(deployment, token), limit), COLUMNS, output)


@app.command()
def receipts(deployment: str, limit: int = 20, output: Output = Form.TABLE) -> None:
    """List the receipts of a deployment's rollbacks, newest first; `slipway receipt ID` shows one's nodes."""
    rows(every(lambda token: releases.receipts(deployment, token), limit), RECEIPTS, output)


@app.command()
def status(deployment: str, number: int | None = None, output: Output = Form.TABLE) -> None:
    """Show a release (default: the newest) with its verdict and gates."""
    found = client().call(releases.get(deployment, number_of(deployment, number)))
    one(found, DETAIL, output)
    if output is Form.TABLE and found.verdict is not None:
        print()
        rows(found.verdict.gates, GATES, output)


@app.command()
def history(deployment: str, number: int | None = None, output: Output = Form.TABLE) -> None:
    """Show how a release went."""
    found = client().call(releases.get(deployment, number_of(deployment, number)))
    rows(found.history, HISTORY, output)


@app.command()
def explain(deployment: str, number: int | None = None, output: Output = Form.TABLE) -> int:
    """Replay the verdict from the stored counters."""
    found = client().call(releases.explain(deployment, number_of(deployment, number)))
    if output is not Form.TABLE:
        one(found, [], output)
        return 0 if found.matches else 1
    _verdict("decided", found.decided)
    _verdict("replayed", found.replayed)
    if found.replayed is not None:
        rows(found.replayed.gates, GATES, output)
    hint(f"{len(found.looks)} looks; the replay {'matches' if found.matches else 'DOES NOT MATCH'}")
    return 0 if found.matches else 1


def _verdict(name: str, verdict: Verdict | None) -> None:
    told = f"{verdict.kind}: {verdict.sentence}" if verdict else "no verdict"
    print(f"{name:<9} {told}")


def _transition(
    deployment: str,
    number: int | None,
    reason: str,
    output: Form,
    call: Callable[[str, int, Transition], Call[Release]],
) -> None:
    asked = call(deployment, number_of(deployment, number), Transition(reason=reason))
    one(client().call(asked), DETAIL, output)


@app.command()
def advance(
    deployment: str, number: int | None = None, reason: Reason = "", output: Output = Form.TABLE
) -> None:
    """Go to the plan's next share by command."""
    _transition(deployment, number, reason, output, releases.advance)


@app.command()
def pause(
    deployment: str, number: int | None = None, reason: Reason = "", output: Output = Form.TABLE
) -> None:
    """Stand still."""
    _transition(deployment, number, reason, output, releases.pause)


@app.command()
def resume(
    deployment: str, number: int | None = None, reason: Reason = "", output: Output = Form.TABLE
) -> None:
    """End a hold, a pause or a freeze."""
    _transition(deployment, number, reason, output, releases.resume)


@app.command()
def abort(
    deployment: str, number: int | None = None, reason: Reason = "", output: Output = Form.TABLE
) -> None:
    """Give stable all traffic; automation stays on."""
    _transition(deployment, number, reason, output, releases.abort)


@app.command()
def approve(
    deployment: str, number: int | None = None, reason: Reason = "", output: Output = Form.TABLE
) -> None:
    """Approve another person's release."""
    _transition(deployment, number, reason, output, releases.approve)


@app.command()
def withdraw(
    deployment: str, number: int | None = None, reason: Reason = "", output: Output = Form.TABLE
) -> None:
    """Take your own approval back, as long as the release has not started."""
    _transition(deployment, number, reason, output, releases.withdraw)


@app.command()
def reject(
    deployment: str,
    reason: Annotated[str, typer.Option(help="Why; kept in the history and the audit trail")],
    number: int | None = None,
    output: Output = Form.TABLE,
) -> None:
    """End a release that awaits approval."""
    asked = releases.reject(deployment, number_of(deployment, number), Reject(reason=reason))
    one(client().call(asked), DETAIL, output)
