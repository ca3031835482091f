"""How many approvals a release needs, of whom, and when a policy asks for less than before."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from registry.contract.deployments import Policy
from registry.contract.tokens import Role
from registry.lifecycle.approvals import approval_guard, missing, own_release_guard, waits, weakens

PEOPLE = st.sets(st.sampled_from(["ana", "ben", "dan", "eva"]))


@given(st.integers(0, 4), PEOPLE)
def test_it_starts_exactly_when_enough_people_approved(needed: int, people: set[str]) -> None:
    policy = Policy(approvals=needed)
    assert (approval_guard(policy, people) is None) == (len(people) >= needed)
    # The same person twice is one.
    assert missing(policy, [*people, *people]) == missing(policy, people)


def test_a_guard_says_how_many_are_missing_and_who_has_approved() -> None:
    told = "waits for 1 approval by people of the role admin; given by ana, ben"
    policy = Policy(approvals=3, approver_role=Role.ADMIN)
    assert waits(policy, ["ben", "ana"]) == told
    assert approval_guard(policy, ["ben", "ana"]) == f"{told} before it can start"


def test_nobody_approves_their_own() -> None:
    assert own_release_guard("ana", "ana") == "one's own release can't be approved"
    assert own_release_guard("ana", "ben") is None


@pytest.mark.parametrize(
    ("before", "after", "weaker"),
    [
        (Policy(approvals=2), Policy(approvals=1), True),
        (Policy(approvals=1), Policy(approvals=2), False),
        (Policy(approvals=1), Policy(approvals=1, approver_role=Role.RELEASER), True),
        (Policy(), Policy(approver_role=Role.RELEASER), False),
        (Policy(approvals=1), Policy(approvals=1, min_ready=3), False),
    ],
)
def test_what_weakens_a_policy(before: Policy, after: Policy, weaker: bool) -> None:
    assert weakens(before, after) is weaker
