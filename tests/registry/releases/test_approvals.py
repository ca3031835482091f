"""N people of a role approve, never their own, and one permitted person ends everything without asking."""

from collections.abc import Sequence

import pytest

from registry.client import ApiError, AsyncClient, access, builds, deployments, releases
from registry.contract.builds import BuildCreate, EngineWrite, TaskFinish
from registry.contract.deployments import DeploymentPatch
from registry.contract.releases import (
    Promote,
    Reject,
    Release,
    ReleasePhase,
    RollBack,
    Transition,
)
from registry.contract.tokens import Role, TokenCreate
from tests import patience
from tests.registry import support
from tests.registry.conftest import Registry
from tests.registry.releases.fleet import fleet
from tests.registry.releases.stage import POLICY, REF, in_phase, released, stage

TWO = POLICY.model_copy(update={"approvals": 2})
YES = Transition(reason="looks right")


async def person(registry: Registry, name: str, *roles: Role) -> AsyncClient:
    made = await registry.client(access.create_token(TokenCreate(name=name, roles=roles)))
    return registry.with_token(made.secret)


async def refused(client: AsyncClient, call: object, status: int) -> ApiError:
    with pytest.raises(ApiError) as error:
        await client(call)  # type: ignore[arg-type]
    assert error.value.status == status, error.value.problem
    return error.value


def by(release: Release) -> Sequence[str]:
    return [approval.by for approval in release.approvals]


async def test_two_other_people_start_a_release(registry: Registry) -> None:
    await stage(registry, TWO)
    ana = await person(registry, "ana", Role.RELEASER, Role.APPROVER)
    ben = await person(registry, "ben", Role.APPROVER)
    eva = await person(registry, "eva", Role.APPROVER)
    dan = await person(registry, "dan", Role.RELEASER)
    async with fleet(registry, size=1):
        release = await ana(releases.promote(REF, Promote(version="animals@1")))
        assert release.phase is ReleasePhase.AWAITING_APPROVAL
        assert release.reason == "waits for 2 approvals by people of the role approver"
        assert "one's own" in str(await refused(ana, releases.approve(REF, 1, YES), 403))
        assert "needs approver" in str(await refused(dan, releases.approve(REF, 1, YES), 403))
        once = await ben(releases.approve(REF, 1, YES))
        assert (by(once), once.phase) == (["ben"], ReleasePhase.AWAITING_APPROVAL)
        assert once.reason == "waits for 1 approval by people of the role approver; given by ben"
        assert "has approved" in str(await refused(ben, releases.approve(REF, 1, YES), 409))
        # Neither a second token of the same name nor a session is a second person.
        again = await person(registry, " ben", Role.APPROVER)
        await refused(again, releases.approve(REF, 1, YES), 409)
        back = await ben(releases.withdraw(REF, 1, Transition(reason="let me look again")))
        assert (by(back), back.approvals_needed) == ([], 2)
        await refused(ben, releases.withdraw(REF, 1, Transition()), 409)
        # By command neither an advance nor a hold leads past the approvals.
        for way in (releases.advance, releases.pause, releases.resume):
            await refused(dan, way(REF, 1, Transition()), 409)
        await eva(releases.approve(REF, 1, YES))
        begun = await ben(releases.approve(REF, 1, YES))
        assert begun.phase is ReleasePhase.PREPARING
        await refused(eva, releases.withdraw(REF, 1, Transition()), 409)
        await in_phase(registry, 1, ReleasePhase.COMPLETED)
    trail = (await registry.client(access.audit(subject="release:prod/animals"))).items
    told = [(entry.action, entry.actor) for entry in reversed(trail)]
    assert told == [
        ("release.promote", "ana"),
        ("release.approve", "ben"),
        ("release.withdraw", "ben"),
        ("release.approve", "eva"),
        ("release.approve", "ben"),
    ]
    assert trail[-2].before is not None and trail[-2].after is not None
    assert (trail[-2].before["approvals"], trail[-2].reason) == ([], "looks right")


async def test_one_person_rejects_with_a_reason(registry: Registry) -> None:
    await stage(registry, TWO)
    ana = await person(registry, "ana", Role.RELEASER, Role.APPROVER)
    ben = await person(registry, "ben", Role.APPROVER)
    async with fleet(registry, size=1):
        await ana(releases.promote(REF, Promote(version="animals@1")))
    no = Reject(reason="the validation set is stale")
    assert "abort" in (await refused(ana, releases.reject(REF, 1, no), 409)).problem.hint
    async with patience.async_client(base_url=registry.url) as http:
        secret = (
            await registry.client(access.create_token(TokenCreate(name="eva", roles=(Role.APPROVER,))))
        ).secret
        silent = await http.post(
            f"/v1/deployments/{REF}/releases/1/reject",
            json={},
            headers={"authorization": f"Bearer {secret}"},
        )
    assert (silent.status_code, silent.json()["errors"][0]["where"]) == (422, "body.reason")
    ended = await ben(releases.reject(REF, 1, no))
    assert ended.phase is ReleasePhase.ABORTED
    assert ended.reason == "rejected by ben: the validation set is stale"
    await refused(ben, releases.approve(REF, 1, YES), 409)
    assert (await registry.client(deployments.get(REF))).active_release is None


async def test_new_engines_make_approvals_void(registry: Registry) -> None:
    await stage(registry, TWO)
    ben = await person(registry, "ben", Role.APPROVER)
    eva = await person(registry, "eva", Role.APPROVER)
    async with fleet(registry, size=1):
        first = await registry.client(releases.promote(REF, Promote(version="animals@1")))
        await ben(releases.approve(REF, 1, YES))
        await rebuilt(registry, "animals@1")
        changed = await refused(eva, releases.approve(REF, 1, YES), 409)
        assert "other engines" in changed.problem.detail
        waiting = await registry.client(releases.get(REF, 1))
        assert waiting.arm.id != first.arm.id
        assert (by(waiting), waiting.phase) == ([], ReleasePhase.AWAITING_APPROVAL)
        assert waiting.history[-1].cause == "rearmed"
        await eva(releases.approve(REF, 1, YES))
        begun = await ben(releases.approve(REF, 1, YES))
        assert begun.phase is ReleasePhase.PREPARING
        assert {approval.arm for approval in begun.approvals} == {waiting.arm.id}


async def rebuilt(registry: Registry, version: str) -> None:
    """Another engine of the same precision and target."""
    build = await registry.client(builds.create(BuildCreate(version=version, no_cache=True)))
    (task,) = await support.queued(registry, "build")
    lease = await support.claimed(registry.client, task)
    content = f"another engine of {version}".encode()
    await support.stored(registry, content)
    written = EngineWrite(fence=lease.fence, engine=support.engine_report(content))
    await registry.client(builds.write_engine(build.id, written))
    await registry.client(builds.finish(build.id, TaskFinish(fence=lease.fence)))


async def test_what_may_not_be_released_any_more_is_not_approved(registry: Registry) -> None:
    await stage(registry, POLICY.model_copy(update={"approvals": 1}))
    ben = await person(registry, "ben", Role.APPROVER)
    async with fleet(registry, size=1):
        await registry.client(releases.promote(REF, Promote(version="animals@1")))
        await support.run_sql(
            registry, "UPDATE versions SET phase = 'quarantined', phase_reason = 'poisoned labels'"
        )
        against = await refused(ben, releases.approve(REF, 1, YES), 409)
    assert any("poisoned labels" in reason for reason in against.problem.reasons)
    assert by(await registry.client(releases.get(REF, 1))) == []


async def test_the_emergency_stop_asks_nobody(registry: Registry) -> None:
    await stage(registry)
    dan = await person(registry, "dan", Role.RELEASER)
    async with fleet(registry, size=1):
        await released(registry, "animals@1")
        await released(registry, "animals@2")
        made = await registry.client(deployments.get(REF))
        await registry.client(deployments.patch(REF, DeploymentPatch(policy=TWO), made.revision))
        waiting = await registry.client(releases.promote(REF, Promote(version="animals@3")))
        aborted = await dan(releases.abort(REF, waiting.number, Transition(reason="wrong version")))
        assert aborted.phase is ReleasePhase.ABORTED
        waiting = await registry.client(releases.promote(REF, Promote(version="animals@3")))
        receipt = await dan(releases.roll_back(REF, RollBack(to="animals@1", reason="errors")))
        assert (receipt.to_arm.version, receipt.asked_by) == ("animals@1", "dan")
        over = await registry.client(releases.get(REF, waiting.number))
        assert over.phase in (ReleasePhase.ROLLING_BACK, ReleasePhase.ROLLED_BACK)


async def test_the_policy_names_the_role(registry: Registry) -> None:
    policy = POLICY.model_copy(update={"approvals": 1, "approver_role": Role.RELEASER})
    made = await stage(registry, policy)
    assert made.policy.approver_role is Role.RELEASER
    dan = await person(registry, "dan", Role.RELEASER)
    ben = await person(registry, "ben", Role.APPROVER)
    async with fleet(registry, size=1):
        waiting = await registry.client(releases.promote(REF, Promote(version="animals@1")))
        assert waiting.approver_role is Role.RELEASER
        await refused(ben, releases.approve(REF, 1, YES), 403)
        await refused(ben, releases.reject(REF, 1, Reject(reason="no")), 403)
        assert (await dan(releases.approve(REF, 1, YES))).phase is ReleasePhase.PREPARING


async def test_only_admins_weaken_the_policy(registry: Registry) -> None:
    made = await stage(registry, TWO)
    dan = await person(registry, "dan", Role.RELEASER)
    for policy in (POLICY, TWO.model_copy(update={"approver_role": Role.RELEASER})):
        await refused(dan, deployments.patch(REF, DeploymentPatch(policy=policy), made.revision), 403)
    more = TWO.model_copy(update={"approvals": 3})
    made = await dan(deployments.patch(REF, DeploymentPatch(policy=more), made.revision))
    made = await registry.client(deployments.patch(REF, DeploymentPatch(policy=POLICY), made.revision))
    assert made.policy.approvals == 0
