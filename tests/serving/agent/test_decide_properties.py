"""In whatever order things happen: traffic to ready arms only, nothing that serves unloaded, fences grow."""

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from registry.contract.nodes import AssignedArm
from registry.contract.routes import BASIS_POINTS, ArmRole
from serving.agent.actions import StopEngine
from serving.agent.loading import held_arms
from serving.agent.snapshot import SlotKey, fence_key
from tests.serving.agent.making import MB, arm, arm_id, assignment, engine, fragment
from tests.serving.agent.world import World

NUMBERS = st.integers(1, 4)
DEPLOYMENTS = st.sampled_from(("prod/m", "prod/n"))


class Node(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.world = World()
        self.generation = 0
        self.highest: dict[str, tuple[str, int, int]] = {}

    @rule(
        deployment=DEPLOYMENTS,
        stable=NUMBERS,
        canary=st.none() | NUMBERS,
        share=st.sampled_from((0, 500, 2500, 5000, 9500, BASIS_POINTS)),
        standby=st.none() | NUMBERS,
        back=st.integers(0, 2),
    )
    def assign(
        self, deployment: str, stable: int, canary: int | None, share: int, standby: int | None, back: int
    ) -> None:
        self.generation += 1
        arms: list[AssignedArm] = []
        if canary is None or canary == stable:
            arms.append(arm(stable, ArmRole.STABLE, BASIS_POINTS))
        else:
            arms += [arm(stable, ArmRole.STABLE, BASIS_POINTS - share), arm(canary, ArmRole.CANARY, share)]
        if standby is not None and standby not in (stable, canary):
            arms.append(arm(standby, ArmRole.STANDBY))
        self.world.turn()
        answered = self._answered(deployment)
        self.world.assign(assignment(fragment(max(1, self.generation - back), arms, deployment=deployment)))
        self.world.turn()
        assert not answered or self._answered(deployment), "a new route took the old arms' traffic away"

    def _answered(self, deployment: str) -> bool:
        published = self.world.published.get(deployment)
        return published is not None and any(item.share for item in published.entry.arms)

    @rule(deployment=DEPLOYMENTS)
    def empty_route(self, deployment: str) -> None:
        self.generation += 1
        self.world.assign(assignment(fragment(self.generation, (), deployment=deployment)))
        self.world.turn()

    @rule(number=NUMBERS)
    def bytes_arrive(self, number: int) -> None:
        self.world.fetched(engine(number).digest)
        self.world.turn()

    @rule(deployment=DEPLOYMENTS, number=NUMBERS, well=st.booleans())
    def load_ends(self, deployment: str, number: int, well: bool) -> None:
        key = SlotKey(deployment, arm_id(number))
        self.world.loaded(key) if well else self.world.refused(key)
        self.world.turn()

    @rule(deployment=DEPLOYMENTS, number=NUMBERS)
    def crash(self, deployment: str, number: int) -> None:
        self.world.crashed(SlotKey(deployment, arm_id(number)))
        self.world.turn()

    @rule(deployment=DEPLOYMENTS, number=NUMBERS)
    def unload_ends(self, deployment: str, number: int) -> None:
        self.world.unloaded(SlotKey(deployment, arm_id(number)))
        self.world.turn()

    @rule()
    def gateways_take(self) -> None:
        self.world.gateways_take()
        self.world.turn()

    @precondition(lambda self: self.world.taken is not None)
    @rule()
    def gateways_drain(self) -> None:
        self.world.gateways_drain()
        self.world.turn()

    @rule()
    def all_goes_well(self) -> None:
        self.world.everything_works(rounds=6)

    @rule()
    def all_bytes_arrive(self) -> None:
        for digest in list(self.world.downloads):
            self.world.fetched(digest)
        self.world.turn()

    @rule(seconds=st.sampled_from((0.5, 5.0, 200.0)), contact=st.booleans())
    def time_passes(self, seconds: float, contact: bool) -> None:
        self.world.now += seconds
        if contact:
            self.world.last_contact = self.world.now
        self.world.turn()

    @rule(memory=st.sampled_from((15 * MB, 35 * MB, 100 * MB)))
    def memory_changes(self, memory: int) -> None:
        self.world.memory = memory
        self.world.turn()

    @invariant()
    def traffic_goes_to_ready_arms_only(self) -> None:
        for deployment, published in self.world.published.items():
            shares = {item.arm: item.share for item in published.entry.arms}
            assert sum(shares.values()) in (0, BASIS_POINTS)
            for item in published.entry.arms:
                slot = self.world.slots.get(SlotKey(deployment, item.arm))
                assert not item.share or (slot is not None and slot.ready and slot.socket == item.socket)
                assert item.socket is None or (slot is not None and slot.socket == item.socket)

    @invariant()
    def fences_grow(self) -> None:
        for deployment, published in self.world.published.items():
            key = fence_key(published.entry.fence)
            assert key >= self.highest.get(deployment, key)
            self.highest[deployment] = key

    @invariant()
    def a_lost_registry_ends_every_trial(self) -> None:
        if self.world.snapshot().leased:
            return
        for published in self.world.published.values():
            stable = [item for item in published.entry.arms if item.role is ArmRole.STABLE and item.socket]
            canaries = [item for item in published.entry.arms if item.role is ArmRole.CANARY]
            if stable:
                assert all(item.share in (0, BASIS_POINTS) for item in canaries)

    @invariant()
    def nothing_that_is_held_is_unloaded(self) -> None:
        for action in self.world.done:
            if isinstance(action, StopEngine):
                published = self.world.published[action.key.deployment]
                assert all(item.arm != action.key.arm or item.share == 0 for item in published.entry.arms)
                held = self.world.holdings[action.key.deployment]
                assert action.key.arm not in held_arms(held)
        self.world.done.clear()

    def teardown(self) -> None:
        """With nothing in the way any more the node does what was asked, and comes to rest."""
        self.world.memory = 1000 * MB
        self.world.bad.clear()
        self.world.everything_works()
        for deployment, held in self.world.holdings.items():
            entry = self.world.published[deployment].entry
            assert held.serving == held.target
            assert {item.arm: item.share for item in entry.arms if item.share} == {
                item.arm: item.share for item in held.target.arms if item.share
            }
            assert {key.arm for key in self.world.slots if key.deployment == deployment} == {
                item.arm for item in held.target.arms
            }


Node.TestCase.settings = settings(max_examples=60, stateful_step_count=40, deadline=None)
TestNode = Node.TestCase
