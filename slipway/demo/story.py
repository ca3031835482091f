"""The demo's acts, in order. Each one does a real job over the same API that people use."""

import os
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

from registry.client import builds, deployments, releases, versions
from registry.contract.builds import Build, BuildCreate
from registry.contract.deployments import DeploymentCreate, MetricsGate, PlanStep, Policy
from registry.contract.engines import GateOutcome
from registry.contract.recipes import Int8Options, Precision, Recipe, Tolerances
from registry.contract.releases import Receipt, Release, ReleasePhase
from registry.contract.versions import (
    BatchRule,
    Lineage,
    Metric,
    MetricsAppend,
    Version,
)
from slipway.client import Client
from slipway.demo import contracts
from slipway.demo.assets import Assets
from slipway.demo.contracts import Fault, Package
from slipway.demo.material import Judges, Material
from slipway.demo.traffic import Load

MODEL = "filetype"
CAREFUL = "filetype-careful"
REF = "prod/filetype"
PLAN = (
    PlanStep(share=500, dwell_s=6),
    PlanStep(share=2_500, dwell_s=6),
    PlanStep(share=5_000, dwell_s=6),
    PlanStep(share=10_000, dwell_s=0),
)
_AGAINST = (GateOutcome.FAILED, GateOutcome.INSUFFICIENT)
STATIC = f"@{Precision.INT8_STATIC}"
Say = Callable[[str], None]


class DemoFailed(Exception):
    """Something went otherwise than the demo promises; the message says what."""


def refusal_of(build: Build) -> str | None:
    """Why the INT8 engine of a build can't be released; None: it can."""
    for engine in build.engines:
        if engine.precision is Precision.INT8_STATIC and not engine.releasable:
            return f"{engine.version}@{engine.precision} was refused: {'; '.join(engine.reasons)}"
    return None


def too_slow(build: Build) -> bool:
    """Whether its speed alone speaks against the INT8 engine of a build."""
    return any(
        {gate.name for gate in engine.gates if gate.outcome in _AGAINST} == {"speed"}
        for engine in build.engines
        if engine.precision is Precision.INT8_STATIC
    )


def load_told() -> str:
    """How busy the machine is, in words."""
    load, cores = os.getloadavg()[0], len(os.sched_getaffinity(0))
    return f"The machine is {'busy' if load > cores else 'shared'} (load {load:.1f} on {cores} cores)"


@dataclass(frozen=True)
class Caught:
    """How a release went back by itself."""

    release: Release
    requests: int
    seconds: float


@dataclass(frozen=True)
class Demo:
    """The stage of all acts."""

    client: Client
    assets: Assets
    material: Material
    folder: Path
    say: Say

    def register(
        self, package: Package, *, model: str = MODEL, golden: bool, parent: int | None = None
    ) -> Version:
        """Files, contract and lineage; then the metric that the training side measured."""
        files = {"model.onnx": package.model}
        if golden:
            files["golden.jsonl"] = self.material.golden
        version = self.client.register(
            model,
            files,
            package.contract,
            lineage=Lineage(
                repository="https://github.com/google/magika",
                training_run="standard_v3_3",
                parent_version=parent,
            ),
        )
        if version.stage != "ready":
            raise DemoFailed(f"{model}@{version.number} is {version.stage}: {version.stage_reason}")
        metric = Metric(
            dataset=self.material.all.validation,
            name="top1",
            value=self.material.top1,
            n=self.material.rows,
        )
        self.client.call(versions.append_metrics(model, version.number, MetricsAppend(metrics=(metric,))))
        proof = "with golden pairs" if version.proven else "without golden pairs: unproven"
        self.say(f"registered {model}@{version.number} ({proof})")
        return version

    def submit(
        self, version: Version, precisions: tuple[Precision, ...], judges: Judges | None = None
    ) -> Build:
        """Puts a build into the queue; without `judges` it is held against all of the data."""
        judges = judges or self.material.all
        recipe = Recipe(
            precisions=precisions,
            calibration=judges.calibration,
            validation=judges.validation,
            int8=Int8Options(operators=("Conv",)),
            # Dynamic INT8 rounds by batch: accepted row by row, so that its speed is what it is judged by.
            tolerances=Tolerances(max_loss=judges.max_loss, batch_mates="alone"),
        )
        name = f"{version.model}@{version.number}"
        return self.client.call(builds.create(BuildCreate(version=name, recipe=recipe)))

    def built(self, submitted: Build) -> Build:
        """Waits for its end. Engines that were refused are part of the story, a failed build is not."""
        done = self._ended(submitted)
        if done.phase != "completed":
            raise DemoFailed(f"the build of {done.version} {done.phase}: {done.reason}")
        return done

    def releasable(self, submitted: Build, again: Callable[[], Build]) -> Build:
        """Waits for a build whose INT8 engine goes into service. One that is refused for its speed alone is
        made once more by `again`: what else the machine did may have been measured. Raises DemoFailed."""
        done = self.built(submitted)
        if too_slow(done):
            self.say(f"{refusal_of(done)}. {load_told()}, which blurs what is measured: once more")
            done = self.built(again())
        if (why := refusal_of(done)) is not None:
            remedy = f". {load_told()}: try again when it is quieter" if too_slow(done) else ""
            raise DemoFailed(f"{why}{remedy}")
        return done

    def _ended(self, submitted: Build) -> Build:
        done = self.client.wait_build(submitted.id, 900)
        cached = sum(step.phase == "cached" for step in done.steps)
        took = (done.since - done.created_at).total_seconds()
        self.say(f"built {done.version} in {took:.1f} s ({len(done.steps)} steps, {cached} from the cache)")
        return done

    def deploy(self) -> None:
        """The deployment with the demo's own plan: steps by command, freeze and rollback by evidence."""
        policy = Policy(
            plan=PLAN,
            auto_advance=False,
            allow_unproven=True,
            metrics_gate=MetricsGate(dataset=self.material.all.validation, metric="top1"),
        )
        body = DeploymentCreate(environment="prod", name="filetype", model=MODEL, policy=policy)
        self.client.call(deployments.create(body))

    def promote(self, version: str) -> Release:
        release = self.client.promote(version, REF)
        self.say(f"release {release.number}: {version} to {REF}, nodes load it")
        return self.client.wait_release(
            REF, release.number, lambda found: found.phase is not ReleasePhase.PREPARING, 120
        )

    def complete(self, release: Release, load: Load | None) -> Release:
        """Goes through the plan by command, showing what clients really got at each step."""
        while release.phase is ReleasePhase.RUNNING:
            self._dwell(release, load)
            release = self.client.advance(REF, release.number, "the demo's plan")
            self.say(f"advanced by command to {release.share / 100:g} %")
        done = self.client.wait_release(
            REF, release.number, lambda found: found.phase is ReleasePhase.COMPLETED, 120
        )
        if done.phase is not ReleasePhase.COMPLETED:
            raise DemoFailed(f"release {done.number} ended {done.phase}: {done.reason}")
        self.say(f"release {done.number} completed: {done.arm.version}@{done.arm.precision} is stable")
        return done

    def widen(self, release: Release, share: int, load: Load) -> Release:
        """By command up to a share, and stay there."""
        while release.share < share:
            self._dwell(release, load)
            release = self.client.advance(REF, release.number, "the demo's plan")
            self.say(f"advanced by command to {release.share / 100:g} %")
        return release

    def _dwell(self, release: Release, load: Load | None) -> None:
        if load is None:
            return
        began = time.time()
        time.sleep(release.plan[release.step].dwell_s)
        counts = load.journal().since(began)
        total = sum(counts.values()) or 1
        name = f"{release.arm.version}@{release.arm.precision}"
        canary = counts.get(release.arm.version.partition("@")[2], 0) + counts.get(name, 0)
        self.say(
            f"  share of {name}: requested {release.share / 100:g} %, observed {100 * canary / total:.1f} %"
        )
        now = self.client.call(releases.get(REF, release.number))
        if now.phase is not ReleasePhase.RUNNING:
            reason = now.verdict.sentence if now.verdict else now.reason
            raise DemoFailed(f"release {now.number} of a sound version is {now.phase}: {reason}")

    def wait_caught(self, release: Release, limit_s: float) -> Caught:
        """Watches until the statistics take the release back."""
        ended = self.client.wait_release(
            REF, release.number, lambda found: found.phase is ReleasePhase.ROLLED_BACK, limit_s
        )
        first = next(change for change in ended.history if change.cause == "prepared")
        back = next((change for change in ended.history if change.cause == "roll_back"), None)
        if back is None or back.by_command or ended.verdict is None:
            raise DemoFailed(f"release {ended.number} was not rolled back by itself: it is {ended.phase}")
        seconds = (back.at - first.at).total_seconds()
        self.say(f"rolled back by itself after {ended.verdict.canary_requests} requests, {seconds:.0f} s")
        self.say(f"  {ended.verdict.sentence}")
        return Caught(ended, ended.verdict.canary_requests, seconds)

    def careful(self, package: Package, judges: Judges) -> Build:
        """The same files as version 1 of a second model, with golden pairs: what care would have told."""
        contract = package.contract.model_copy(update={"golden": "golden.jsonl"})
        version = self.register(replace(package, contract=contract), model=CAREFUL, golden=True)
        return self.submit(version, (Precision.FP32,), judges)

    def refusal(self, build: Build) -> str | None:
        """Why the careful one was refused; None: it was not."""
        done = self._ended(build)
        reasons = [reason for engine in done.engines for reason in engine.reasons]
        if done.phase != "completed":
            reasons.append(done.reason)
        if reasons:
            self.say(f"the same files with golden pairs are refused: {reasons[0]}")
        return reasons[0] if reasons else None

    def rollback_by_hand(self) -> Receipt:
        self.say(f"slipway rollback {REF}")
        receipt = self.client.rollback(REF, reason="the demo's own hand", wait=60)
        if not receipt.all_drained:
            raise DemoFailed(f"not every node confirmed the rollback: {receipt.final or 'still waiting'}")
        for node in receipt.nodes:
            self.say(f"  {node.name}: switched +{node.switched_ms:.0f} ms, drained +{node.drained_ms:.0f} ms")
        self.say(f"  {receipt.final}")
        return receipt

    def unpin(self) -> None:
        self.client.call(deployments.unpin(REF))
        self.say("pin lifted by command")

    def right(self, *, golden: bool, max_rows: int = 16) -> Package:
        """The model with its right contract; another limit of rows makes another contract of it."""
        made = contracts.contract(self.assets, golden=golden)
        return Package(self.assets.model, made.model_copy(update={"batch": BatchRule(max_rows=max_rows)}))

    def faulty(self, fault: Fault) -> Package:
        return contracts.faulty(fault, self.assets, self.folder / "faulty")
