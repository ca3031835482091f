"""What other rooms may ask of releases, and the lists."""

from registry.contract.pages import Page
from registry.contract.releases import Receipt, ReceiptNote, Release
from registry.deployments import service as deployments
from registry.edge import pages
from registry.edge.unit import Unit
from registry.releases import receipts, repository, represent
from registry.tables.deployments import DeploymentRow

active_numbers = repository.active_numbers
claim = repository.claim
now = repository.now


async def get(unit: Unit, deployment: DeploymentRow, number: int) -> Release:
    """Raises NotFound."""
    row = await repository.get(unit.session, deployment, number)
    arms = await deployments.arms(unit.session, {arm for arm in (row.arm_id, row.from_arm_id) if arm})
    return await represent.release(unit.session, row, arms)


async def listing(unit: Unit, deployment: DeploymentRow, below: int | None, limit: int) -> Page[Release]:
    rows = await repository.page(unit.session, deployment.id, below, limit + 1)
    wanted = {arm for row in rows for arm in (row.arm_id, row.from_arm_id) if arm}
    arms = await deployments.arms(unit.session, wanted)
    made = {row.id: await represent.release(unit.session, row, arms) for row in rows[:limit]}
    return pages.page(rows, limit, lambda row: made[row.id], lambda row: row.number)


async def receipt_list(unit: Unit, deployment: DeploymentRow, below: int | None, limit: int) -> Page[Receipt]:
    """Newest first."""
    rows = await repository.rollbacks(unit.session, deployment.id, below, limit)
    made = {row.id: await receipts.represent(unit, row) for row in rows[:limit]}
    return pages.page(rows, limit, lambda row: made[row.id], lambda row: row.generation)


async def add_note(unit: Unit, rollback_id: str, body: ReceiptNote) -> Receipt:
    """A reason given afterwards; the receipt itself never changes."""
    row = await repository.rollback(unit.session, rollback_id)
    before = await receipts.represent(unit, row)
    row.notes = [*row.notes, f"{unit.actor}: {body.text}"]
    await unit.session.flush()
    after = await receipts.represent(unit, row)
    unit.audit("rollback.note", f"rollback:{row.id}", before, after, body.text)
    return after
