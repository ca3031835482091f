"""What the demo prints at its end: for people, or as one JSON document."""

from pydantic import BaseModel

from registry.contract.builds import Build
from registry.contract.releases import Receipt, Release
from slipway.demo.story import Caught


class BuildLine(BaseModel):
    version: str
    precision: str
    releasable: bool
    golden: str
    parity: float | None
    validation: str | None
    source_metric: float | None
    engine_metric: float | None
    speed_ratio: float | None
    size_ratio: float | None
    reasons: tuple[str, ...]


class ReleaseLine(BaseModel):
    version: str
    outcome: str
    caught_after_requests: int | None = None
    caught_after_s: float | None = None
    by_command: bool


class RollbackLine(BaseModel):
    nodes: int
    confirmed: int
    ms_last_switched: float
    ms_last_confirmed: float
    last_bad_answer_before_drained: bool


class TrafficLine(BaseModel):
    requests: int
    failed: int
    counted_by_nodes: int
    p50_ms: float
    p99_ms: float


class Report(BaseModel):
    fault: str
    seconds: float
    builds: list[BuildLine]
    refused_with_golden: str | None
    releases: list[ReleaseLine]
    explained: bool
    rollback: RollbackLine
    traffic: TrafficLine
    broken: list[str] = []


class Failure(BaseModel):
    """What is printed instead of a report by a demo that stopped."""

    fault: str
    seconds: float
    failed: str


def build_lines(build: Build) -> list[BuildLine]:
    """One line an engine. Parity: the worst cosine over the outputs."""
    lines = []
    for engine in build.engines:
        gates = {gate.name: gate.outcome for gate in engine.gates}
        lines.append(
            BuildLine(
                version=build.version,
                precision=engine.precision,
                releasable=engine.releasable,
                golden=gates.get("golden", "skipped"),
                parity=min((each.cosine for each in engine.parity.outputs), default=None)
                if engine.parity
                else None,
                validation=engine.validation.outcome if engine.validation else None,
                source_metric=engine.validation.source_metric if engine.validation else None,
                engine_metric=engine.validation.engine_metric if engine.validation else None,
                speed_ratio=engine.bench.speed_ratio if engine.bench else None,
                size_ratio=engine.bench.size_ratio if engine.bench else None,
                reasons=engine.reasons,
            )
        )
    return lines


def release_line(release: Release, caught: Caught | None = None) -> ReleaseLine:
    return ReleaseLine(
        version=f"{release.arm.version}@{release.arm.precision}",
        outcome=release.phase,
        caught_after_requests=caught.requests if caught else None,
        caught_after_s=round(caught.seconds, 1) if caught else None,
        by_command=any(
            change.by_command
            for change in release.history
            if change.cause in ("step", "last_step", "roll_back")
        ),
    )


def rollback_line(receipt: Receipt, *, answers_before_drained: bool) -> RollbackLine:
    return RollbackLine(
        nodes=len(receipt.nodes),
        confirmed=sum(node.state == "drained" for node in receipt.nodes),
        ms_last_switched=max(node.switched_ms or 0 for node in receipt.nodes),
        ms_last_confirmed=max(node.drained_ms or 0 for node in receipt.nodes),
        last_bad_answer_before_drained=answers_before_drained,
    )


def _number(value: float | None, form: str) -> str:
    return "-" if value is None else format(value, form)


def _ratio(value: float | None) -> str:
    return "-" if value is None else f"x{value:.2f}"


def _engines(report: Report) -> list[str]:
    head = f"{'engine':<28}{'golden':>10}{'parity':>10}{'accuracy':>16}{'speed':>8}{'size':>7}  verdict"
    lines = [head]
    for line in report.builds:
        accuracy = "-"
        if line.source_metric is not None:
            accuracy = f"{line.source_metric:.4f}→{_number(line.engine_metric, '.4f')}"
        verdict = "releasable" if line.releasable else f"refused: {'; '.join(line.reasons)}"
        lines.append(
            f"{line.version + '@' + line.precision:<28}{line.golden:>10}{_number(line.parity, '.5f'):>10}"
            f"{accuracy:>16}{_ratio(line.speed_ratio):>8}{_ratio(line.size_ratio):>7}  {verdict}"
        )
    return lines


def text(report: Report, where: str) -> str:
    """For people."""
    lines = ["", "Engines", *_engines(report), "", "Releases"]
    for line in report.releases:
        how = "steps by command" if line.by_command else "by itself"
        caught = ""
        if line.caught_after_requests is not None:
            caught = f", caught after {line.caught_after_requests} requests and {line.caught_after_s:.0f} s"
        lines.append(f"  {line.version:<30} {line.outcome} ({how}{caught})")
    back, seen = report.rollback, report.traffic
    lines += [
        "",
        "Rollback by hand under load",
        f"  {back.confirmed} of {back.nodes} nodes confirmed; last switched +{back.ms_last_switched:.0f} ms, "
        f"last drained +{back.ms_last_confirmed:.0f} ms",
        f"  clients' last answer of the bad version before its node's drained time: "
        f"{'yes' if back.last_bad_answer_before_drained else 'NO'}",
        f"  the statistics' verdict replayed from the stored counters: "
        f"{'the same' if report.explained else 'NOT THE SAME'}",
        "",
        "Traffic",
        f"  {seen.requests} requests, {seen.failed} failed, {seen.counted_by_nodes} counted by the nodes; "
        f"p50 {seen.p50_ms:.0f} ms, p99 {seen.p99_ms:.0f} ms",
        "",
        f"{report.seconds:.0f} s in all. {where}",
    ]
    return "\n".join(lines)
