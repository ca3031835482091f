"""Rules of the decision, one by one."""

from dataclasses import replace

from registry.contract.nodes import SlotPhase
from registry.contract.routes import ArmRole
from serving.agent.actions import Confirm, Fetch, StartEngine, StopEngine
from serving.agent.decide import UNUSED_KEPT, decide
from serving.agent.loading import wanted
from serving.agent.snapshot import Holding, SlotKey
from tests.serving.agent.making import MB, arm, arm_id, assignment, engine, fragment, ready, snapshot
from tests.serving.agent.world import World

STABLE = arm(1, ArmRole.STABLE, 10_000)
TRIAL = (arm(1, ArmRole.STABLE, 7_500), arm(2, ArmRole.CANARY, 2_500))
KEY1, KEY2 = SlotKey("prod/m", arm_id(1)), SlotKey("prod/m", arm_id(2))


def shares(world: World) -> dict[str, int]:
    return {item.version: item.share for item in world.published["prod/m"].entry.arms if item.share}


def serving(*fragments: object) -> World:
    """A world in which the fragments were followed one after the other, and all went well."""
    world = World()
    for item in fragments:
        world.assign(assignment(item))  # type: ignore[arg-type]
        world.everything_works(rounds=10)
    return world


def test_first_assignment_is_fetched_loaded_published_and_confirmed_twice() -> None:
    world = serving(fragment(1, [STABLE]))
    assert shares(world) == {"m@1@fp32": 10_000}
    assert [item.moment for item in world.done if isinstance(item, Confirm)] == ["switched", "drained"]


def test_until_something_is_loaded_the_table_says_when_to_come_back() -> None:
    world = World()
    world.assign(assignment(fragment(1, [STABLE])))
    world.settle()
    entry = world.published["prod/m"].entry
    assert [item.share for item in entry.arms] == [0]
    assert entry.estimate_s > 1


def test_a_warm_rollback_needs_one_decision() -> None:
    world = serving(fragment(1, [STABLE]), fragment(2, TRIAL))
    world.assign(assignment(fragment(3, [STABLE, arm(2, ArmRole.STANDBY)])))
    world.turn()
    assert shares(world) == {"m@1@fp32": 10_000}
    assert world.published["prod/m"].entry.fence.generation == 3


def test_a_cold_rollback_loads_first_and_switches_then() -> None:
    world = serving(fragment(1, [STABLE]))
    world.assign(assignment(fragment(2, [arm(2, ArmRole.STABLE, 10_000)])))
    world.settle()
    world.gateways_take()
    world.settle()
    assert shares(world) == {"m@1@fp32": 10_000}
    assert world.published["prod/m"].entry.fence.generation == 1
    assert "until generation 2 has its arms ready" in world.turn().says
    world.fetched(engine(2).digest)
    world.settle()
    world.loaded(KEY2)
    world.settle()
    assert shares(world) == {"m@2@fp32": 10_000}
    assert world.published["prod/m"].entry.fence.generation == 2


def test_the_old_arm_is_unloaded_after_it_drained_only() -> None:
    world = serving(fragment(1, [STABLE]), fragment(2, [arm(2, ArmRole.STABLE, 10_000), arm(1)]))
    world.assign(assignment(fragment(3, [arm(2, ArmRole.STABLE, 10_000)])))
    world.settle()
    world.gateways_take()
    world.settle()
    assert world.slots[KEY1].ready
    assert any(item.arm == arm_id(1) for item in world.published["prod/m"].entry.arms)
    world.gateways_drain()
    world.settle()
    assert all(item.arm != arm_id(1) for item in world.published["prod/m"].entry.arms)
    assert world.slots[KEY1].ready, "not before the gateways route without it"
    world.gateways_take()
    world.settle()
    assert world.slots[KEY1].phase is SlotPhase.UNLOADING


def test_an_arm_on_the_keep_list_stays_loaded() -> None:
    world = serving(fragment(1, [STABLE]), fragment(2, [arm(2, ArmRole.STABLE, 10_000)], keep=[1]))
    assert world.slots[KEY1].ready


def test_a_deployment_that_vanished_is_served_on() -> None:
    world = serving(fragment(1, [STABLE]))
    world.assign(assignment())
    world.everything_works(rounds=5)
    assert shares(world) == {"m@1@fp32": 10_000}


def test_an_empty_route_takes_all_traffic_away() -> None:
    world = serving(fragment(1, [STABLE]), fragment(2, []))
    assert world.published["prod/m"].entry.fence.generation == 2
    assert shares(world) == {}
    assert not world.slots


def test_memory_refuses_the_new_load_with_numbers_and_keeps_what_serves() -> None:
    world = serving(fragment(1, [STABLE]))
    world.memory = 15 * MB
    world.assign(assignment(fragment(2, [STABLE, arm(2, ArmRole.CANARY)])))
    decision = world.settle()
    report = next(item for item in decision.slots if item.arm == arm_id(2))
    assert report.phase is SlotPhase.FAILED and not report.bad_digest
    assert "needs 10.0 MB" in report.reason and "5.0 MB are free" in report.reason
    assert shares(world) == {"m@1@fp32": 10_000}
    world.memory = 100 * MB
    world.everything_works(rounds=5)
    assert world.slots[KEY2].ready


def test_a_refused_engine_stays_bad_until_one_retry_is_asked_for() -> None:
    world = World()
    world.assign(assignment(fragment(1, [STABLE])))
    world.settle()
    world.fetched(engine(1).digest)
    world.settle()
    world.refused(KEY1)
    decision = world.settle()
    assert [(item.phase, item.bad_digest, item.reason) for item in decision.slots] == [
        (SlotPhase.FAILED, True, "not a model")
    ]
    world.assign(assignment(fragment(2, [STABLE], retry_bad=[engine(1).digest])))
    world.settle()
    assert world.slots[KEY1].phase is SlotPhase.VERIFYING
    world.refused(KEY1)
    assert world.settle().slots[0].bad_digest, "one retry_bad is one retry"
    world.assign(assignment(fragment(3, [STABLE], retry_bad=[engine(1).digest])))
    world.settle()
    assert world.slots[KEY1].phase is SlotPhase.VERIFYING


def test_a_crashed_engine_is_started_again_when_its_pause_is_over() -> None:
    world = serving(fragment(1, [STABLE]))
    world.crashed(KEY1, pause=2)
    decision = world.settle()
    assert shares(world) == {}
    assert decision.wake_at == world.now + 2
    world.now += 2.5
    world.settle()
    world.loaded(KEY1)
    world.settle()
    assert shares(world) == {"m@1@fp32": 10_000}


def test_a_crashed_canary_leaves_its_share_to_stable() -> None:
    world = serving(fragment(1, [STABLE]), fragment(2, TRIAL))
    world.crashed(KEY2)
    world.settle()
    assert shares(world) == {"m@1@fp32": 10_000}
    assert world.published["prod/m"].entry.fence.generation == 2


def test_a_small_canary_never_inherits_from_a_crashed_stable() -> None:
    world = serving(fragment(1, [STABLE]), fragment(2, TRIAL))
    world.crashed(KEY1)
    world.settle()
    assert shares(world) == {}


def test_a_canary_with_most_of_the_traffic_does() -> None:
    late = (arm(1, ArmRole.STABLE, 500), arm(2, ArmRole.CANARY, 9_500))
    world = serving(fragment(1, [STABLE]), fragment(2, late))
    world.crashed(KEY1)
    world.settle()
    assert shares(world) == {"m@2@fp32": 10_000}


def test_the_canary_is_a_lease() -> None:
    world = serving(fragment(1, [STABLE]), fragment(2, TRIAL))
    assert shares(world) == {"m@1@fp32": 7_500, "m@2@fp32": 2_500}
    world.now += 119
    assert world.settle().wake_at == world.now + 1
    world.now += 2
    world.settle()
    world.gateways_take()
    report = world.settle().deployments[0]
    assert shares(world) == {"m@1@fp32": 10_000} == {"m@1@fp32": sum(report.shares.values())}
    assert report.lease_expired
    world.last_contact = world.now
    world.settle()
    assert shares(world) == {"m@1@fp32": 7_500, "m@2@fp32": 2_500}


def test_a_full_route_never_expires() -> None:
    full = (arm(2, ArmRole.CANARY, 10_000), arm(1, ArmRole.STABLE, 0))
    world = serving(fragment(1, [STABLE]), fragment(2, full))
    world.now += 100_000
    world.settle()
    assert shares(world) == {"m@2@fp32": 10_000}


def test_a_start_without_the_registry_gives_a_canary_nothing() -> None:
    held = fragment(2, TRIAL)
    state = snapshot({"prod/m": Holding(held)}, [ready(1), ready(2)], [1, 2], last_contact=None)
    published = next(item for item in decide(state).actions if hasattr(item, "entries"))
    assert [item.share for item in published.entries[0].arms] == [10_000, 0]


def test_after_a_restart_the_target_is_loaded_before_what_served() -> None:
    old, new = fragment(1, [STABLE]), fragment(2, [arm(2, ArmRole.STABLE, 10_000)])
    state = snapshot({"prod/m": Holding(new, serving=old)}, disk=[1, 2])
    started = [item.arm.version for item in decide(state).actions if isinstance(item, StartEngine)]
    assert started == ["m@2@fp32"]
    started = [
        item.arm.version for item in decide(replace(state, loads=2)).actions if isinstance(item, StartEngine)
    ]
    assert started == ["m@2@fp32", "m@1@fp32"]


def test_a_node_without_a_fitting_engine_says_so() -> None:
    bare = STABLE.model_copy(update={"engine": None, "reason": "no engine for ort.cpu"})
    decision = decide(snapshot({"prod/m": Holding(fragment(1, [bare]))}))
    assert decision.slots[0].phase is SlotPhase.FAILED
    assert decision.slots[0].reason == "no engine for ort.cpu"
    assert not any(isinstance(item, Fetch | StartEngine) for item in decision.actions)


def test_one_digest_is_fetched_once_for_two_deployments() -> None:
    fragments = [fragment(1, [STABLE], deployment=name) for name in ("prod/a", "prod/b")]
    decision = decide(snapshot({item.deployment: Holding(item) for item in fragments}))
    assert len([item for item in decision.actions if isinstance(item, Fetch)]) == 1


def test_switched_waits_for_every_gateway() -> None:
    world = serving(fragment(1, [STABLE]), fragment(2, TRIAL))
    world.done.clear()
    world.assign(assignment(fragment(3, [STABLE, arm(2)])))
    world.settle()
    assert not any(isinstance(item, Confirm) for item in world.done)
    assert not world.settle().deployments[0].switched
    world.gateways_take()
    report = world.settle().deployments[0]
    assert report.switched and not report.drained
    world.gateways_drain()
    assert world.settle().deployments[0].drained


def test_engines_that_nothing_names_are_deleted_but_for_a_few() -> None:
    state = snapshot({"prod/m": Holding(fragment(1, [STABLE]))}, disk=range(1, 10))
    evicted = [item for item in decide(state).actions if type(item).__name__ == "Evict"]
    assert len(evicted) == 8 - UNUSED_KEPT


def test_a_load_that_is_not_wanted_any_more_is_stopped_at_once() -> None:
    world = serving(fragment(1, [STABLE]))
    world.assign(assignment(fragment(2, [STABLE, arm(2, ArmRole.CANARY)])))
    world.settle()
    world.fetched(engine(2).digest)
    world.settle()
    world.assign(assignment(fragment(3, [STABLE])))
    assert any(isinstance(item, StopEngine) and item.key == KEY2 for item in world.turn().actions)


def test_engines_are_loaded_by_the_share_that_waits_for_them() -> None:
    """Of all deployments of a node: what serves most first, standbys last, names only between equals."""
    half = [arm(1, ArmRole.STABLE, 4_000), arm(2, ArmRole.CANARY, 6_000), arm(3, ArmRole.STANDBY)]
    whole = [arm(4, ArmRole.STABLE, 10_000), arm(5, ArmRole.STANDBY)]
    holdings = {"prod/a": Holding(fragment(1, half)), "prod/b": Holding(fragment(1, whole))}
    order = [item.arm.version for item in wanted(holdings)]
    assert order == ["m@4@fp32", "m@2@fp32", "m@1@fp32", "m@3@fp32", "m@5@fp32"]
