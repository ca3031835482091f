"""Rolling back: from every phase, by several people, with a receipt that stays."""

import asyncio

import pytest

from registry.client import deployments, releases
from registry.client.errors import ApiError
from registry.contract.deployments import PlanStep
from registry.contract.releases import Receipt, ReceiptNote, ReleasePhase, RollBack, Transition
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
)


async def roll_back(registry: Registry, **wishes: object) -> Receipt:
    return await registry.client(releases.roll_back(REF, RollBack(**wishes)))  # type: ignore[arg-type]


async def serving(registry: Registry) -> str:
    route = (await registry.client(deployments.get(REF))).requested
    assert route is not None
    return ", ".join(arm.version for arm in route.arms if arm.share == 10_000)


async def test_a_running_release_goes_back_to_its_stable_with_a_receipt(registry: Registry) -> None:
    await stage(registry)
    async with fleet(registry):
        await released(registry, "animals@1")
        release = await promote(registry, "animals@2")
        await in_phase(registry, release.number, ReleasePhase.RUNNING)
        receipt = await roll_back(registry, reason="labels look wrong", wait=10)
        assert receipt.to_arm.version == "animals@1"
        assert [arm.version for arm in receipt.from_arms] == ["animals@2"]
        assert (receipt.asked_by, receipt.reason, receipt.automatic) == ("admin", "labels look wrong", False)
        assert receipt.all_switched and receipt.all_drained
        assert {node.state for node in receipt.nodes} == {"drained"}
        for node in receipt.nodes:
            assert node.switched_ms is not None and node.drained_ms is not None
            assert 0 < node.switched_ms <= node.drained_ms
        assert receipt.final.startswith("All 2 nodes serve animals@1@fp32; last switched")
        ended = await in_phase(registry, release.number, ReleasePhase.ROLLED_BACK)
        assert ended.reason == "every node is back"
        assert await serving(registry) == "animals@1@fp32"
    kept = await registry.client(releases.receipt(receipt.id))
    assert kept.nodes == receipt.nodes, "a receipt is permanent"


async def test_a_completed_release_goes_back_to_the_last_good_version(registry: Registry) -> None:
    await stage(registry)
    async with fleet(registry):
        await released(registry, "animals@1")
        second = await released(registry, "animals@2")
        receipt = await roll_back(registry, wait=10)
        assert receipt.to_arm.version == "animals@1"
        assert not any(node.cold for node in receipt.nodes), "the standby was warm"
        await in_phase(registry, second.number, ReleasePhase.ROLLED_BACK)
        deployment = await registry.client(deployments.get(REF))
        assert deployment.pinned
        assert deployment.last_good is not None
        assert deployment.last_good.version == "animals@1", "a rollback does not move the pointer"


@pytest.mark.parametrize("phase", ["awaiting_approval", "preparing", "running", "completing"])
async def test_rollback_works_from_every_phase(registry: Registry, phase: str) -> None:
    await stage(registry, POLICY.model_copy(update={"node_timeout_s": 60}))
    async with fleet(registry) as nodes:
        await released(registry, "animals@1")
        if phase == "awaiting_approval":
            found = await registry.client(deployments.get(REF))
            policy = found.policy.model_copy(update={"approvals": 1})
            from registry.contract.deployments import DeploymentPatch

            await registry.client(deployments.patch(REF, DeploymentPatch(policy=policy), found.revision))
        if phase == "preparing":
            for node in nodes:
                node.deaf = True
        release = await promote(registry, "animals@2")
        if phase in ("running", "completing"):
            await in_phase(registry, release.number, ReleasePhase.RUNNING)
        if phase == "completing":
            await advance(registry, release.number)
            for node in nodes:
                node.deaf = True
            await advance(registry, release.number)
        await in_phase(registry, release.number, ReleasePhase(phase))
        receipt = await roll_back(registry)
        assert receipt.to_arm.version == "animals@1"
        assert await serving(registry) == "animals@1@fp32"
        for node in nodes:
            node.deaf = False
        await in_phase(registry, release.number, ReleasePhase.ROLLED_BACK)


async def test_two_presses_together_and_one_later_make_one_rollback(registry: Registry) -> None:
    await stage(registry)
    one = await registry.as_role(Role.RELEASER)
    async with fleet(registry):
        await released(registry, "animals@1")
        await released(registry, "animals@2")
        both = await asyncio.gather(
            one(releases.roll_back(REF, RollBack())), registry.client(releases.roll_back(REF, RollBack()))
        )
        later = await registry.client(releases.roll_back(REF, RollBack(wait=5)))
    assert both[0].id == both[1].id == later.id
    assert sorted(receipt.already for receipt in both) == [False, True]
    assert later.already
    assert later.asked_by == next(receipt.asked_by for receipt in both if not receipt.already)
    listed = await registry.client(releases.receipts(REF))
    assert len(listed.items) == 1


async def test_with_nothing_to_go_back_to_the_answer_says_what_is_possible(registry: Registry) -> None:
    await stage(registry)
    async with fleet(registry):
        first = await promote(registry, "animals@1")
        with pytest.raises(ApiError) as refused:
            await roll_back(registry)
        assert refused.value.status == 409
        assert f"slipway release abort {REF} --number {first.number}" in refused.value.problem.hint
        await in_phase(registry, first.number, ReleasePhase.COMPLETED)
        with pytest.raises(ApiError) as alone:
            await roll_back(registry)
        assert alone.value.status == 409
        assert "slipway promote animals@NUMBER --to prod/animals" in alone.value.problem.hint
        assert "abort" not in alone.value.problem.hint
        await released(registry, "animals@2")
        await roll_back(registry)
        await registry.client(deployments.unpin(REF))
        with pytest.raises(ApiError) as stable:
            await roll_back(registry)
        assert stable.value.problem.reasons == ("animals@2@fp32",)


async def test_after_a_rollback_further_back_a_press_without_a_target_never_goes_forward(
    registry: Registry,
) -> None:
    await stage(registry)
    async with fleet(registry):
        for version in ("animals@1", "animals@2", "animals@3"):
            await released(registry, version)
        await roll_back(registry, to="animals@1")
        far = await registry.client(deployments.unpin(REF))
        assert far.last_good is not None and far.last_good.version == "animals@2"
        assert far.rollback_to is None
        with pytest.raises(ApiError) as refused:
            await roll_back(registry)
        assert refused.value.status == 409
        assert refused.value.problem.reasons == ("animals@3@fp32", "animals@2@fp32")
        await roll_back(registry, to="animals@3")
        back = await registry.client(deployments.unpin(REF))
        assert back.rollback_to is not None and back.rollback_to.version == "animals@2"
        receipt = await roll_back(registry)
        assert receipt.to_arm.version == "animals@2"


async def test_an_explicit_target_must_have_served(registry: Registry) -> None:
    await stage(registry)
    async with fleet(registry):
        await released(registry, "animals@1")
        await released(registry, "animals@2")
        with pytest.raises(ApiError) as never:
            await roll_back(registry, to="animals@3")
        assert never.value.status == 409
        await roll_back(registry, to="animals@1", wait=5)
        again = await roll_back(registry, to="animals@2", wait=5)
        assert not again.already
        assert await serving(registry) == "animals@2@fp32"
        back = await roll_back(registry, to="animals@1", wait=5)
        assert back.all_drained
        assert await serving(registry) == "animals@1@fp32"


async def test_a_silent_node_is_named_with_what_it_served_last(registry: Registry) -> None:
    registry.settings.node_stale_s = 3
    await stage(registry)
    async with fleet(registry) as nodes:
        await released(registry, "animals@1")
        await released(registry, "animals@2")
        nodes[1].deaf = True
        await asyncio.sleep(4)
        receipt = await roll_back(registry, wait=10)
    states = {node.name: node.state for node in receipt.nodes}
    assert states == {"n1": "drained", "n2": "unreachable"}
    assert receipt.final.startswith("1 of 2 nodes serve animals@1@fp32; n2 silent since")
    assert "its last known version is animals@2@fp32" in receipt.final


async def test_a_release_after_an_unpin_starts_from_the_good_version(registry: Registry) -> None:
    await stage(registry)
    async with fleet(registry):
        await released(registry, "animals@1")
        release = await promote(registry, "animals@2")
        await in_phase(registry, release.number, ReleasePhase.RUNNING)
        await roll_back(registry, wait=5)
        with pytest.raises(ApiError) as pinned:
            await promote(registry, "animals@3")
        assert pinned.value.kind == "pinned"
        await registry.client(deployments.unpin(REF))
        third = await released(registry, "animals@3")
        assert third.from_arm is not None
        assert third.from_arm.version == "animals@1"


async def test_advance_and_rollback_together_end_on_the_good_version(registry: Registry) -> None:
    steps = tuple(PlanStep(share=share, dwell_s=0) for share in (500, 1_000, 2_000, 4_000, 10_000))
    await stage(registry, POLICY.model_copy(update={"plan": steps}))
    async with fleet(registry):
        await released(registry, "animals@1")
        release = await promote(registry, "animals@2")
        await in_phase(registry, release.number, ReleasePhase.RUNNING)
        answers = await asyncio.gather(
            *(registry.client(releases.advance(REF, release.number, Transition())) for _ in range(3)),
            roll_back(registry),
            return_exceptions=True,
        )
        assert isinstance(answers[-1], Receipt)
        assert {a.status for a in answers[:-1] if isinstance(a, ApiError)} <= {409}
        await in_phase(registry, release.number, ReleasePhase.ROLLED_BACK)
        assert await serving(registry) == "animals@1@fp32"
        routes = (await registry.client(deployments.routes(REF))).items
    generations = [route.fence.generation for route in routes]
    assert generations == sorted(generations, reverse=True)
    assert all(sum(arm.share for arm in route.arms) in (0, 10_000) for route in routes)


async def test_a_reason_can_be_added_afterwards(registry: Registry) -> None:
    await stage(registry)
    async with fleet(registry):
        await released(registry, "animals@1")
        await released(registry, "animals@2")
        receipt = await roll_back(registry)
        noted = await registry.client(releases.note(receipt.id, ReceiptNote(text="wrong label table")))
    assert noted.notes == ("admin: wrong label table",)


async def test_only_releasers_press(registry: Registry) -> None:
    await stage(registry)
    viewer = await registry.as_role(Role.VIEWER)
    with pytest.raises(ApiError) as refused:
        await viewer(releases.roll_back(REF, RollBack()))
    assert refused.value.status == 403
    with pytest.raises(ApiError) as unknown:
        await registry.client(releases.roll_back("prod/nothing", RollBack()))
    assert unknown.value.status == 404
