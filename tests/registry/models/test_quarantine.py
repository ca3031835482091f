"""A version that turned out bad: never released again, no target of a rollback, named where it serves."""

import json

import pytest

from registry.client import ApiError, deployments, releases, versions
from registry.contract.deployments import Arm
from registry.contract.releases import ReleasePhase, RollBack
from registry.contract.versions import StageChange
from tests.registry.command import slipway
from tests.registry.conftest import Registry
from tests.registry.releases.fleet import fleet
from tests.registry.releases.stage import REF, build_versions, in_phase, promote, released, stage, until


async def _refused(registry: Registry, to: str | None) -> ApiError:
    with pytest.raises(ApiError, match="animals@1 is quarantined: leaks") as refused:
        await registry.client(releases.roll_back(REF, RollBack(to=to)))
    assert (refused.value.status, refused.value.kind) == (409, "guard-failed")
    return refused.value


async def test_what_is_quarantined_serves_no_more_unless_someone_insists(registry: Registry) -> None:
    await build_versions(registry)
    await stage(registry)
    async with fleet(registry):
        await released(registry, "animals@1")
        under_way = await promote(registry, "animals@2")
        await until(registry, under_way.number, lambda release: release.phase is ReleasePhase.RUNNING)
        bad = await registry.client(versions.quarantine("animals", 1, StageChange(reason="leaks")))
        assert bad.warnings == (f"deployment {REF} has it as its stable arm",)
        assert bad == await registry.client(versions.get("animals", 1))
        # From a canary back to what serves: never refused, whatever that is.
        receipt = await registry.client(releases.roll_back(REF, RollBack(wait=20)))
        assert (receipt.to_arm.version, receipt.all_drained) == ("animals@1", True)
        await registry.client(deployments.unpin(REF))
        with pytest.raises(ApiError, match="it can never be released"):
            await promote(registry, "animals@1")

        await released(registry, "animals@2")
        refused = await _refused(registry, None)
        assert "no other version that served here is fit" in refused.problem.hint
        assert "--to animals@1@fp32 --allow-unfit" in refused.problem.hint
        await _refused(registry, "animals@1")
        assert (await registry.client(deployments.get(REF))).pinned is False
        insisted = RollBack(to="animals@1", allow_unfit=True, wait=20)
        receipt = await registry.client(releases.roll_back(REF, insisted))
        assert receipt.to_arm.version == "animals@1"
        await in_phase(registry, 3, ReleasePhase.ROLLED_BACK)
        first = await registry.client(releases.receipts(REF, limit=1))
        rest = await registry.client(releases.receipts(REF, first.next_page_token))
        assert [found.id for found in first.items] == [receipt.id]
        assert [found.release for found in rest.items] == [2]
        listed, _ = await slipway(registry, "release", "receipts", REF, "-o", "json")
        assert [found["id"] for found in json.loads(listed)] == [receipt.id, rest.items[0].id]
        table, _ = await slipway(registry, "release", "receipts", REF, "--limit", "1")
        assert receipt.id in table and rest.items[0].id not in table


async def test_the_one_button_goes_past_a_last_good_version_that_was_quarantined(registry: Registry) -> None:
    await build_versions(registry)
    await stage(registry)
    async with fleet(registry):
        for version in ("animals@1", "animals@2", "animals@3"):
            await released(registry, version)
        assert _name((await registry.client(deployments.get(REF))).rollback_to) == "animals@2"
        await registry.client(versions.quarantine("animals", 2, StageChange(reason="leaks")))
        now = await registry.client(deployments.get(REF))
        assert (_name(now.last_good), _name(now.rollback_to)) == ("animals@2", "animals@1")
        receipt = await registry.client(releases.roll_back(REF, RollBack(wait=20)))
        assert (receipt.to_arm.version, receipt.all_drained) == ("animals@1", True)
        (note,) = receipt.notes
        assert note.startswith("went past animals@2@fp32, the last good one: animals@2 is quarantined: leaks")


def _name(arm: Arm | None) -> str | None:
    return arm.version if arm else None
