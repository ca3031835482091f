"""A release from promote to its ends, with nodes that follow."""

import asyncio

import pytest

from registry.client import deployments, releases
from registry.client.errors import ApiError
from registry.contract.deployments import DeploymentPatch, Pin
from registry.contract.releases import Hold, Promote, ReleasePhase, Transition
from registry.contract.routes import ArmRole
from registry.contract.tokens import Role
from tests.registry.conftest import Registry
from tests.registry.releases.fleet import fleet
from tests.registry.releases.stage import (
    POLICY,
    REF,
    advance,
    in_phase,
    promote,
    released,
    stage,
    until,
)
from tests.registry.support import run_sql


async def shares(registry: Registry) -> dict[str, int]:
    route = (await registry.client(deployments.get(REF))).requested
    assert route is not None
    return {arm.version: arm.share for arm in route.arms}


async def test_a_first_release_prepares_and_goes_to_everything_in_one_step(registry: Registry) -> None:
    await stage(registry)
    async with fleet(registry):
        release = await promote(registry, "animals@1")
        assert release.from_arm is None
        assert [step.share for step in release.plan] == [10_000]
        done = await in_phase(registry, release.number, ReleasePhase.COMPLETED)
        assert await shares(registry) == {"animals@1@fp32": 10_000}
    deployment = await registry.client(deployments.get(REF))
    assert deployment.stable is not None
    assert deployment.stable.version == "animals@1"
    assert deployment.last_good is None
    assert {guard.name: guard.outcome for guard in done.guards}["metrics"] == "skipped"


async def test_steps_by_command_widen_the_share_and_complete(registry: Registry) -> None:
    await stage(registry)
    async with fleet(registry) as nodes:
        await released(registry, "animals@1")
        release = await promote(registry, "animals@2")
        release = await in_phase(registry, release.number, ReleasePhase.RUNNING)
        assert release.share == 500
        assert await shares(registry) == {"animals@1@fp32": 9_500, "animals@2@fp32": 500}
        release = await advance(registry, release.number)
        assert await shares(registry) == {"animals@1@fp32": 5_000, "animals@2@fp32": 5_000}
        release = await advance(registry, release.number)
        done = await in_phase(registry, release.number, ReleasePhase.COMPLETED)
        seen = nodes[0].seen
    deployment = await registry.client(deployments.get(REF))
    assert deployment.stable is not None and deployment.last_good is not None
    assert (deployment.stable.version, deployment.last_good.version) == ("animals@2", "animals@1")
    assert deployment.requested is not None
    roles = {arm.version: (arm.role, arm.share) for arm in deployment.requested.arms}
    assert roles == {
        "animals@2@fp32": (ArmRole.STABLE, 10_000),
        "animals@1@fp32": (ArmRole.STANDBY, 0),
    }
    by_command = [change.share for change in done.history if change.cause in ("step", "last_step")]
    assert by_command == [5_000, 10_000]
    assert all(change.by_command for change in done.history if change.cause in ("step", "last_step"))
    assert seen == sorted(set(seen)), "a node never sees a generation twice or backwards"


async def test_a_release_whose_stored_plan_ends_below_everything_never_completes(registry: Registry) -> None:
    """Such plans are refused now; a registry of before may have kept one."""
    await stage(registry)
    async with fleet(registry):
        await released(registry, "animals@1")
        release = await promote(registry, "animals@2")
        await in_phase(registry, release.number, ReleasePhase.RUNNING)
        await run_sql(
            registry,
            "UPDATE releases SET plan = jsonb_build_array(plan->0) WHERE number = %s",
            release.number,
        )
        with pytest.raises(ApiError) as refused:
            await advance(registry, release.number)
        assert "the plan ends at 5 %" in refused.value.problem.detail
        assert await shares(registry) == {"animals@1@fp32": 9_500, "animals@2@fp32": 500}


async def test_a_second_release_is_refused_or_supersedes(registry: Registry) -> None:
    await stage(registry)
    async with fleet(registry):
        await released(registry, "animals@1")
        first = await promote(registry, "animals@2")
        with pytest.raises(ApiError) as refused:
            await promote(registry, "animals@3")
        assert refused.value.status == 409
        assert "supersede" in refused.value.problem.hint
        second = await promote(registry, "animals@3", supersede=True)
        ended = await registry.client(releases.get(REF, first.number))
        assert ended.phase is ReleasePhase.SUPERSEDED
        await in_phase(registry, second.number, ReleasePhase.RUNNING)
        assert await shares(registry) == {"animals@1@fp32": 9_500, "animals@3@fp32": 500}


async def test_an_abort_gives_stable_everything_and_pins_nothing(registry: Registry) -> None:
    await stage(registry)
    async with fleet(registry):
        await released(registry, "animals@1")
        release = await promote(registry, "animals@2")
        await in_phase(registry, release.number, ReleasePhase.RUNNING)
        ended = await registry.client(releases.abort(REF, release.number, Transition(reason="no")))
        assert ended.phase is ReleasePhase.ABORTED
        assert await shares(registry) == {"animals@1@fp32": 10_000}
        assert not (await registry.client(deployments.get(REF))).pinned
        await released(registry, "animals@3")


async def test_an_aborted_first_release_leaves_an_empty_route(registry: Registry) -> None:
    await stage(registry)
    async with fleet(registry) as nodes:
        nodes[0].deaf = nodes[1].deaf = True
        release = await promote(registry, "animals@1")
        await registry.client(releases.abort(REF, release.number, Transition()))
    assert await shares(registry) == {}


async def test_a_paused_release_does_not_move_until_it_is_resumed(registry: Registry) -> None:
    await stage(registry)
    async with fleet(registry):
        await released(registry, "animals@1")
        release = await promote(registry, "animals@2")
        await in_phase(registry, release.number, ReleasePhase.RUNNING)
        paused = await registry.client(releases.pause(REF, release.number, Transition(reason="lunch")))
        assert paused.hold is Hold.PAUSED
        assert paused.reason == "lunch"
        resumed = await registry.client(releases.resume(REF, release.number, Transition()))
        assert resumed.hold == ""
        with pytest.raises(ApiError) as refused:
            await registry.client(releases.resume(REF, release.number, Transition()))
        assert refused.value.status == 409


async def test_a_stale_expected_revision_is_refused(registry: Registry) -> None:
    await stage(registry)
    async with fleet(registry):
        await released(registry, "animals@1")
        release = await promote(registry, "animals@2")
        release = await in_phase(registry, release.number, ReleasePhase.RUNNING)
        await advance(registry, release.number)
        stale = Transition(expected_revision=release.revision)
        with pytest.raises(ApiError) as refused:
            await registry.client(releases.advance(REF, release.number, stale))
    assert refused.value.status == 409


async def test_every_guard_that_fails_is_told_at_once(registry: Registry) -> None:
    await stage(registry, POLICY.model_copy(update={"allow_unproven": False}))
    with pytest.raises(ApiError) as refused:
        await promote(registry, "animals@1")
    problem = refused.value.problem
    assert problem.status == 409
    assert refused.value.kind == "guard-failed"
    assert any("unproven" in reason for reason in problem.reasons)
    assert any("0 nodes can load it" in reason for reason in problem.reasons)
    assert (await registry.client(releases.page(REF))).items == ()


async def test_a_version_without_engine_is_refused_with_the_command_to_build(registry: Registry) -> None:
    await stage(registry)
    async with fleet(registry):
        with pytest.raises(ApiError) as refused:
            await promote(registry, "animals@1@int8-static")
    assert any("slipway build create animals@1" in reason for reason in refused.value.problem.reasons)


async def test_a_pinned_deployment_takes_no_release(registry: Registry) -> None:
    await stage(registry)
    async with fleet(registry):
        await registry.client(deployments.pin(REF, Pin(reason="freeze for the fair")))
        with pytest.raises(ApiError) as refused:
            await promote(registry, "animals@1")
        assert refused.value.kind == "pinned"
        assert "freeze for the fair" in refused.value.problem.detail
        await registry.client(deployments.unpin(REF))
        await released(registry, "animals@1")


async def test_a_node_that_cannot_load_is_left_out_when_enough_remain(registry: Registry) -> None:
    await stage(registry)
    async with fleet(registry) as nodes:
        await released(registry, "animals@1")
        release = await registry.client(releases.promote(REF, Promote(version="animals@2")))
        nodes[1].fails[release.arm.id] = "out of memory: 9 GiB needed, 1 GiB free"
        release = await in_phase(registry, release.number, ReleasePhase.RUNNING)
        assert "n2" in next(change.reason for change in release.history if change.cause == "prepared")
        published = await registry.client(deployments.nodes(REF))
        assert [target for entry in published for target in entry.targets] == ["n1:8000"]


async def test_a_release_that_no_node_can_load_fails_with_their_reasons(registry: Registry) -> None:
    await stage(registry)
    async with fleet(registry) as nodes:
        await released(registry, "animals@1")
        release = await promote(registry, "animals@2")
        for node in nodes:
            node.fails[release.arm.id] = "the file is damaged"
        ended = await in_phase(registry, release.number, ReleasePhase.FAILED)
        assert "n1: the file is damaged" in ended.reason
        assert await shares(registry) == {"animals@1@fp32": 10_000}


async def test_approvals_by_others_start_a_release(registry: Registry) -> None:
    await stage(registry, POLICY.model_copy(update={"approvals": 1}))
    owner = await registry.as_role(Role.RELEASER, Role.APPROVER)
    other = await registry.as_role(Role.APPROVER)
    async with fleet(registry):
        release = await owner(releases.promote(REF, Promote(version="animals@1")))
        assert release.phase is ReleasePhase.AWAITING_APPROVAL
        with pytest.raises(ApiError) as own:
            await owner(releases.approve(REF, release.number, Transition()))
        assert own.value.status == 403
        await other(releases.approve(REF, release.number, Transition(reason="looks right")))
        done = await in_phase(registry, release.number, ReleasePhase.COMPLETED)
    assert [approval.reason for approval in done.approvals] == ["looks right"]


async def test_a_silent_node_becomes_a_laggard_and_does_not_stop_completion(registry: Registry) -> None:
    await stage(registry)
    async with fleet(registry) as nodes:
        await released(registry, "animals@1")
        release = await promote(registry, "animals@2")
        await in_phase(registry, release.number, ReleasePhase.RUNNING)
        await advance(registry, release.number)
        nodes[1].deaf = True
        await advance(registry, release.number)
        done = await in_phase(registry, release.number, ReleasePhase.COMPLETED)
    assert done.laggards == ("n2",)


async def test_roles_and_scopes_hold(registry: Registry) -> None:
    await stage(registry)
    viewer = await registry.as_role(Role.VIEWER)
    staging = await registry.as_role(Role.RELEASER, environments=("staging",))
    for client, status in ((viewer, 403), (staging, 404)):
        with pytest.raises(ApiError) as refused:
            await client(releases.promote(REF, Promote(version="animals@1")))
        assert refused.value.status == status
    assert (await viewer(deployments.get(REF))).model == "animals"


async def test_a_policy_is_changed_with_if_match(registry: Registry) -> None:
    made = await stage(registry)
    body = DeploymentPatch(policy=POLICY.model_copy(update={"min_ready": 2}))
    changed = await registry.client(deployments.patch(REF, body, made.revision))
    assert changed.policy.min_ready == 2
    with pytest.raises(ApiError) as stale:
        await registry.client(deployments.patch(REF, body, made.revision))
    assert stale.value.status == 412


async def test_parallel_promotes_start_one_release(registry: Registry) -> None:
    await stage(registry)
    async with fleet(registry):
        await released(registry, "animals@1")
        answers = await asyncio.gather(
            *(promote(registry, f"animals@{2 + n % 2}") for n in range(8)), return_exceptions=True
        )
    refused = [answer for answer in answers if isinstance(answer, ApiError)]
    assert len(refused) == 7
    assert {error.status for error in refused} == {409}


async def test_the_audit_names_who_promoted(registry: Registry) -> None:
    await stage(registry)
    async with fleet(registry):
        release = await promote(registry, "animals@1", reason="first of all")
        await until(registry, release.number, lambda found: found.phase is ReleasePhase.COMPLETED)
    from registry.client import access

    entries = (await registry.client(access.audit(subject="release:prod/animals"))).items
    promoted = [entry for entry in entries if entry.action == "release.promote"]
    assert [(entry.actor, entry.reason) for entry in promoted] == [("admin", "first of all")]
