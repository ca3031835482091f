"""Names, plans, gates, shares, offers and receipts as people read them."""

from datetime import timedelta

import pytest

from registry.contract.releases import ReleasePhase
from registry.contract.routes import ArmRole
from registry.contract.tokens import Role
from registry.contract.verdicts import VerdictKind
from tests.web.views import made
from web.charts.sharebar import share_bar
from web.views import gates
from web.views.naming import Names
from web.views.offer import choices, offer
from web.views.plan import plan
from web.views.receipt import summary, view
from web.views.shares import shares
from web.views.words import figure, listed, span


def test_a_name_is_short_while_it_is_clear() -> None:
    names = Names(["cats@41@fp32", "cats@42@fp32", "cats@42@int8-static"])
    assert [names(v) for v in ("cats@41@fp32", "cats@42@fp32", "cats@42@int8-static", "cats@9")] == [
        "v41",
        "v42 fp32",
        "v42 int8-static",
        "v9",
    ]


def test_figures() -> None:
    assert [span(s) for s in (0, 59, 300, 7_200, 400_000)] == ["0 s", "59 s", "5 min", "2.0 h", "5 d"]
    assert [figure(v) for v in (0.00712, 3.21, 1_843, 4.2e11)] == ["0.00712", "3.21", "1,843", "4.2·10^11"]
    assert listed(["a"]) == "a"
    assert listed(["a", "b", "c"]) == "a, b and c"
    assert listed(list("abcdef")) == "a, b, c, d and 2 more"


def test_a_plan_says_where_one_is_and_when_the_next_gate_opens() -> None:
    policy = made.deployment().policy
    found = plan(made.release(), policy, made.NOW)
    assert found.place == "step 2 of 3"
    assert [step.state for step in found.steps] == ["done", "here", "ahead"]
    assert found.next_gate.replace("\xa0", " ") == "next gate 15:29:36Z, then 100 %"
    waits = made.verdict(
        VerdictKind.HOLD, made.gate(wait_s=90.0), made.gate(purpose="roll_back", wait_s=900.0)
    )
    later = plan(made.release(verdict=waits), policy, made.NOW)
    assert later.next_gate.startswith("next gate 15:30:26Z")
    over = plan(made.release(), policy, made.NOW + timedelta(minutes=5))
    assert over.next_gate.endswith("as soon as the evidence allows")
    by_command = plan(
        made.release(), policy.model_copy(update={"auto_advance": False}), made.NOW + timedelta(minutes=5)
    )
    assert by_command.next_gate.endswith("by command: slipway release advance prod/cats")
    assert plan(made.release(hold="frozen"), policy, made.NOW).next_gate == "stands still: frozen"
    done = plan(made.release(phase=ReleasePhase.COMPLETED, step=2), policy, made.NOW)
    assert {step.state for step in done.steps} == {"done"}


def test_gates_never_take_silence_for_health() -> None:
    quiet = made.gate(purpose="roll_back", outcome="passed")
    missing = made.gate(outcome="not_enough_data", value=None, n=0)
    proven = made.gate(outcome="passed", value=21.0)
    rolls, advances = gates.groups(made.verdict(VerdictKind.HOLD, proven, quiet, missing))
    assert [gate.level for gate in rolls.gates] == ["none"]
    assert [(gate.word, gate.level, gate.value) for gate in advances.gates] == [
        ("not enough data", "unknown", "–"),
        ("passed", "good", "21"),
    ]
    assert gates.fill(20.0, 20.0) == pytest.approx(1.0)
    assert gates.fill(0.0, 400.0) == 0.0
    assert gates.fill(1e12, 400.0) == 1.2
    assert gates.fill(0.05, 0.1) == pytest.approx(0.5)


def test_shares_tell_requested_from_observed() -> None:
    on_trial = made.deployment(
        active_release=2,
        requested=made.route((made.arm(1), ArmRole.STABLE, 7_500), (made.arm(2), ArmRole.CANARY, 2_500)),
    )
    found = shares(made.facts(on_trial, release=made.release()))
    assert [(s.name, s.role, s.share) for s in found.requested] == [
        ("v1", "stable", 7_500),
        ("v2", "canary", 2_500),
    ]
    assert found.observed is not None
    assert [(s.name, s.share) for s in found.observed] == [("v1", 10_000)]
    assert not found.agree
    silent = shares(made.facts(on_trial, made.node("n1", fresh=False), release=made.release()))
    assert silent.observed is None
    drawn = share_bar("x", "shares", found.requested)
    assert 'x1="75.00%" x2="100.00%"' in drawn
    assert "v2 25\xa0%" in drawn
    assert "not known" in share_bar("x", "shares", None)


def test_what_is_offered_in_each_state() -> None:
    running = offer(made.facts(made.deployment(active_release=2), release=made.release()), made.ANA)
    assert running.possible
    assert running.name == "v1"
    first = made.release(from_arm=None)
    assert (
        "is the first one here"
        in offer(made.facts(made.deployment(active_release=2), release=first), made.ANA).why_not
    )
    completed = made.deployment(stable=made.arm(2), last_good=made.arm(1), rollback_to=made.arm(1))
    assert offer(made.facts(completed), made.ANA).name == "v1"
    back = made.deployment(last_good=made.arm(1), rollback_to=made.arm(1), pinned=True)
    already = offer(made.facts(back, receipt=made.receipt("drained", final="All")), made.ANA)
    assert (already.possible, already.why_not) == (False, "Already rolled back to v1 by ana.")
    assert already.receipt.startswith("rbk_")
    further = made.deployment(stable=made.arm(1), last_good=made.arm(2), pinned=True)
    by_name = offer(made.facts(further), made.ANA)
    assert (by_name.possible, by_name.others) == (False, True)
    assert by_name.why_not.startswith("Rolled back to v1 by name")
    viewer = made.ANA.model_copy(update={"roles": (Role.VIEWER,)})
    assert "this needs the role releaser" in offer(made.facts(completed), viewer).why_not


def test_choices_are_what_had_all_traffic_newest_first() -> None:
    one, two, three = (made.arm(number) for number in (1, 2, 3))
    routes = [
        made.route((three, ArmRole.CANARY, 500), (two, ArmRole.STABLE, 9_500)),
        made.route((two, ArmRole.STABLE, 10_000), (one, ArmRole.STANDBY, 0)),
        made.route((one, ArmRole.STABLE, 10_000)),
    ]
    found = choices(routes, [two.id], Names(["cats@1@fp32", "cats@2@fp32"]))
    assert [choice.name for choice in found] == ["v1"]


def test_a_receipt_reads_well_and_can_be_passed_on() -> None:
    waiting = view(made.receipt("drained", "waiting"))
    assert waiting.title == "1/2 rolling back · R-A1B2C3"
    assert not waiting.over
    silent = made.receipt("drained", "unreachable", final="1 of 2 nodes serve cats@1@fp32")
    found = view(silent)
    assert (found.level, found.word) == ("warn", "Not confirmed everywhere")
    assert [row.note for row in found.silent] == ["its last known version is v2"]
    told = summary(silent, "http://x/rollbacks/r")
    assert "Rollback R-A1B2C3 of prod/cats: v2 → v1" in told
    assert "n1: drained, switched +87 ms, drained +1.36 s" in told
    assert "reason: none given" in told
