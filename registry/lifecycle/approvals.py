"""Who may approve a release, how many must, and when that is enough. Pure."""

from collections.abc import Collection

from registry.contract.deployments import Policy


def missing(policy: Policy, approved_by: Collection[str]) -> int:
    """How many more people must approve."""
    return max(0, policy.approvals - len(set(approved_by)))


def approval_guard(policy: Policy, approved_by: Collection[str]) -> str | None:
    """Against the start of a release: it has too few approvals."""
    left = missing(policy, approved_by)
    return None if left == 0 else f"{waits(policy, approved_by)} before it can start"


def waits(policy: Policy, approved_by: Collection[str]) -> str:
    """`waits for 2 approvals by people of the role approver`."""
    left = missing(policy, approved_by)
    given = f"; given by {', '.join(sorted(approved_by))}" if approved_by else ""
    return (
        f"waits for {left} approval{'' if left == 1 else 's'} by people of the role "
        f"{policy.approver_role}{given}"
    )


def own_release_guard(author: str, person: str) -> str | None:
    """Against an approval: nobody approves what they promoted themselves."""
    return "one's own release can't be approved" if author == person else None


def weakens(before: Policy, after: Policy) -> bool:
    """Whether fewer or other people would have to approve from now on."""
    return after.approvals < before.approvals or (
        before.approvals > 0 and after.approver_role != before.approver_role
    )
