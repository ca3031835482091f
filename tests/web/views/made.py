"""Resources as the registry represents them, for view models."""

from datetime import UTC, datetime, timedelta
from typing import Literal

from registry.contract.counters import CounterEdges
from registry.contract.deployments import (
    Arm,
    Deployment,
    DeploymentStatus,
    ObservedArm,
    ObservedNode,
    PlanStep,
    Policy,
)
from registry.contract.releases import Receipt, ReceiptNode, Release, ReleasePhase
from registry.contract.routes import ArmRole, Fence, Route, RouteArm, RouteCause, RoutingUnit
from registry.contract.tokens import Role, Whoami
from registry.contract.verdicts import GateProgress, Verdict, VerdictKind
from web.views.facts import Facts

NOW = datetime(2026, 3, 7, 15, 28, 56, tzinfo=UTC)
PLAN = tuple(PlanStep(share=share, dwell_s=60) for share in (500, 2_500, 10_000))
ANA = Whoami(name="ana", roles=(Role.RELEASER,), models=(), environments=(), registry_id="reg_1")


def arm(number: int, precision: str = "fp32") -> Arm:
    digest = f"arm-{number:063x}{len(precision) % 16:x}"
    return Arm(
        id=digest, version=f"cats@{number}", precision=precision, engines={}, pipeline="p", proven=True
    )


def route(*arms: tuple[Arm, ArmRole, int], generation: int = 7) -> Route:
    return Route(
        deployment="prod/cats",
        fence=Fence(registry_id="reg_1", timeline=1, generation=generation),
        cause=RouteCause.STEP,
        actor="ana",
        reason="",
        arms=tuple(
            RouteArm(arm=each.id, version=f"{each.version}@{each.precision}", role=role, share=share)
            for each, role, share in arms
        ),
        keep=(),
        unit=RoutingUnit(),
        salt="s",
        edges=CounterEdges(),
        created_at=NOW,
    )


def release(**values: object) -> Release:
    plain: dict[str, object] = {
        "deployment": "prod/cats",
        "number": 2,
        "id": "rel_1",
        "arm": arm(2),
        "from_arm": arm(1),
        "phase": ReleasePhase.RUNNING,
        "hold": "",
        "reason": "",
        "since": NOW - timedelta(seconds=20),
        "step": 1,
        "share": 2_500,
        "plan": PLAN,
        "guards": (),
        "approvals": (),
        "approvals_needed": 0,
        "verdict": None,
        "revision": 1,
        "created_at": NOW,
        "created_by": "ana",
    }
    return Release.model_validate(plain | values)


def deployment(**values: object) -> Deployment:
    plain: dict[str, object] = {
        "environment": "prod",
        "name": "cats",
        "model": "cats",
        "selector": {},
        "unit": RoutingUnit(),
        "policy": Policy(plan=PLAN),
        "requested": route((arm(1), ArmRole.STABLE, 10_000)),
        "stable": arm(1),
        "last_good": None,
        "rollback_to": None,
        "active_release": None,
        "pinned": False,
        "pin_reason": "",
        "pinned_by": None,
        "revision": 1,
        "created_at": NOW,
        "created_by": "ana",
    }
    return Deployment.model_validate(plain | values)


def node(name: str, *, fresh: bool = True, published: bool = True, failed: str = "") -> ObservedNode:
    held = ObservedArm(
        arm=arm(1).id,
        version="cats@1@fp32",
        role=ArmRole.STABLE,
        share=10_000,
        phase="failed" if failed else "ready",
        reason=failed,
    )
    return ObservedNode(
        node=f"nod_{name}",
        name=name,
        fresh=fresh,
        last_seen_at=NOW,
        published=published and fresh,
        applied=Fence(registry_id="reg_1", timeline=1, generation=7),
        switched_at=NOW,
        drained_at=NOW,
        arms=(held,),
        says="",
        address=None,
    )


def status(*nodes: ObservedNode) -> DeploymentStatus:
    return DeploymentStatus(
        deployment="prod/cats",
        generation=7,
        nodes=nodes,
        converged=bool(nodes) and all(each.fresh for each in nodes),
        observed={arm(1).id: 10_000},
        as_of=NOW,
    )


def receipt(*states: Literal["waiting", "switched", "drained", "unreachable"], final: str = "") -> Receipt:
    return Receipt(
        id="rbk_00000000000000000000000000a1b2c3",
        deployment="prod/cats",
        generation=7,
        asked_at=NOW,
        asked_by="ana",
        reason="rolled back by ana",
        automatic=False,
        release=2,
        from_arms=(arm(2),),
        to_arm=arm(1),
        nodes=tuple(
            ReceiptNode(
                node=f"nod_{at}",
                name=f"n{at}",
                state=state,
                switched_ms=87.4 if state in ("switched", "drained") else None,
                drained_ms=1_359.0 if state == "drained" else None,
                last_known_version="cats@2@fp32",
            )
            for at, state in enumerate(states, 1)
        ),
        all_switched=all(state in ("switched", "drained") for state in states),
        all_drained=all(state == "drained" for state in states),
        final=final,
    )


def gate(**values: object) -> GateProgress:
    plain: dict[str, object] = {
        "name": "errors",
        "family": "errors",
        "purpose": "advance",
        "value": 4.0,
        "threshold": 20.0,
        "n": 1_843,
        "outcome": "waiting",
        "sentence": "",
    }
    return GateProgress.model_validate(plain | values)


def verdict(kind: VerdictKind, *gates: GateProgress) -> Verdict:
    return Verdict(
        kind=kind,
        sentence="what was seen",
        gates=gates,
        canary_requests=10,
        stable_requests=30,
        pairs=5,
        step=1,
        generation=7,
        at=NOW,
    )


def facts(
    made: Deployment | None = None,
    *nodes: ObservedNode,
    release: Release | None = None,
    receipt: Receipt | None = None,
) -> Facts:
    return Facts(made or deployment(), status(*(nodes or (node("n1"), node("n2")))), release, receipt)
